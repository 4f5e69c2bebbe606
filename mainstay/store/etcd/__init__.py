"""A store over etcd: any number of processes share one history.

    store.py     `EtcdStore`: what `Store` promises, from what etcd offers
    reads.py     quorum reads, repeated while etcd cannot be reached
    watch.py     one watch: a stream that is opened again when it breaks, and never leaves a gap
    access.py    who we are and whom we trust: certificates, user and password, from files
    keyspace.py  where the keys are, and how values are sealed
    kv.py        the seam: etcd's key-value API in plain values, and its refusals as types
    grpc_kv.py   the real one, over gRPC; the only file that imports grpc

The other side of the seam is tests/store/fake_etcd.py: a pretend cluster in virtual time. One test suite runs on both.
"""

from mainstay.store.etcd.store import EtcdStore, open_etcd

__all__ = ["EtcdStore", "open_etcd"]
