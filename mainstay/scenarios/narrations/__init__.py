"""The timelines of the five worked examples, each as steps that are looked for in a run. One file for each."""
