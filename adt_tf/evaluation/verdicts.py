"""Names and numbers of verdicts."""

NATURAL = "natural"
ROBUST = "A_rob"
RIGHT, WRONG, NOT_RUN = 1, 0, -1
