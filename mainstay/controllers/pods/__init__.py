"""What all workload controllers do with their pods: adopt them, name them, choose which to delete first."""
