"""What the product promises, as functions: track, articulate, identify, video_to_task."""
