"""HorizontalPodAutoscalers: scale a target by what its pods use, and by how far it has come."""
