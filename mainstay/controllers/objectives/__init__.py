"""ServiceLevelObjectives: measure how quickly pods come and how many stay, and how fast the error budget burns."""
