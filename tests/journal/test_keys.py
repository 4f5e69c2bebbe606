"""Which keys of the store are objects, and of which kind."""

import pytest

from mainstay.journal.keys import is_object, parse_kind


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("core/pods/default/web-1", "pods"),
        ("apps/deployments/default/web", "deployments.apps"),
        ("example.com/websites/default/blog", "websites.example.com"),
        (
            "apiextensions.k8s.io/customresourcedefinitions/websites.example.com",
            "customresourcedefinitions.apiextensions.k8s.io",
        ),
    ],
)
def test_objects_are_known_by_their_group(key: str, kind: str):
    assert is_object(key)
    assert parse_kind(key) == kind


def test_names_that_a_definition_has_claimed_are_no_object():
    assert not is_object("apiextensions.k8s.io/acceptednames/example.com")
