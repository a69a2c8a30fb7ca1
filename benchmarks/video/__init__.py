"""From a depth video to a simulator: tracking, joints and parameters in one go."""
