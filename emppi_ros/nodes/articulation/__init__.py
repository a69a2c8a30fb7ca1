"""Node `articulation`: joints of tracked objects while they move."""
