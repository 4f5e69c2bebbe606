"""Authentication, authorization, and the certificates and tokens they rest on."""
