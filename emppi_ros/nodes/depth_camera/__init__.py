"""The node `depth_camera`."""
