"""Success and honesty of the belief in worlds that are harder than the task describes."""
