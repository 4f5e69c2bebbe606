"""tools/make-messages: from Kubernetes' sources to fields.tsv, and from there to the table that schema.py reads."""

import runpy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

PROTO = """
package k8s.io.api.batch.v1;

message Job {
  // Unrelated = 5
  optional .k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta metadata = 1;
  optional JobSpec spec = 2;
}

message JobSpec {
  optional int32 parallelism = 1;
  repeated string names = 2;
  map<string, bytes> data = 3;
  optional JobSource jobSource = 4;
  optional string aPIGroup = 5;
}
"""

GO = """
type Job struct {
\tmetav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
\t// Comment
\tSpec JobSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
}

type JobSpec struct {
\tParallelism *int32 `json:"parallelism,omitempty" protobuf:"varint,1,opt,name=parallelism"`
\tNames []string `json:"names" patchStrategy:"merge" protobuf:"bytes,2,rep,name=names"`
\tData map[string][]byte `json:"data,omitempty" protobuf:"bytes,3,rep,name=data"`
\tJobSource `json:",inline" protobuf:"bytes,4,opt"`
\tAPIGroup string `json:"apiGroup,omitempty" protobuf:"bytes,5,opt,name=aPIGroup"`
}
"""


def the_tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "make-messages"))


def test_the_table_in_the_package_is_the_one_that_the_checked_in_fields_give():
    tool = the_tool()
    lines = (ROOT / "tools" / "kubernetes" / "fields.tsv").read_text().splitlines()[1:]

    text = tool["render_messages"](tool["Row"](*line.split("\t")) for line in lines)

    assert text == (ROOT / "mainstay" / "api" / "messages.txt").read_text()


def test_a_package_is_read_from_its_proto_and_its_go_source(tmp_path: Path):
    tool = the_tool()
    directory = tmp_path / "staging/src/k8s.io/api/batch/v1"
    directory.mkdir(parents=True)
    (directory / "generated.proto").write_text(PROTO)
    (directory / "types.go").write_text(GO)

    rows = list(tool["read_package"](tmp_path, "batch/v1"))

    assert tool["render_messages"](rows).splitlines()[1:] == [
        "[batch.v1]",
        "Job metadata:1:meta.v1.ObjectMeta spec:2:JobSpec",
        "JobSpec parallelism!:1:int32 names!:2:* data:3:%bytes jobSource^:4:JobSource apiGroup:5",
    ]
