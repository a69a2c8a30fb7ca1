"""Plans for a task: the EMPPI update, and the planner that it is a part of."""
