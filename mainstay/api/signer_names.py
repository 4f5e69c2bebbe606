"""The signers of certificates whose requests the API server signs itself (server/auth/request_signer.py)."""

from typing import Final

CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"
NODE_CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client-kubelet"
NODE_SERVING_SIGNER: Final = "kubernetes.io/kubelet-serving"
