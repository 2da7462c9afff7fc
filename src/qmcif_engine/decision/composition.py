"""Stand-in until the rule lands."""

REACH_PX = 24
