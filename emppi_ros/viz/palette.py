"""The colours of everything that is drawn: rviz markers, pictures, plots and the web page."""

Color = tuple[float, float, float]

# shapes in the scene
OBJECT, TARGET = (0.10, 0.40, 0.85), (0.75, 0.22, 0.17)
LOW_COST, MEDIUM_COST, HIGH_COST = (0.10, 0.65, 0.25), (0.95, 0.80, 0.10), (0.85, 0.15, 0.10)
DIVERGED, PLAN, PREDICTION = (0.85, 0.10, 0.85), (0.05, 0.10, 0.45), (0.10, 0.40, 0.85)
BAR, MEAN = (0.10, 0.40, 0.85), (0.95, 0.50, 0.05)
FRAME, BOX = (0.35, 0.35, 0.35), (0.55, 0.62, 0.75)
SHEET, TEXT = (1.0, 1.0, 1.0), (0.1, 0.1, 0.1)
JOINT_KINDS: tuple[Color, ...] = ((0.10, 0.40, 0.85), (0.95, 0.50, 0.05), (0.56, 0.30, 0.66))
TRUE_AXIS, CHANGE = (0.10, 0.75, 0.25), (0.05, 0.35, 0.18)
AXIS_BRIGHTNESS = 0.85  # of the red, green and blue axes of a frame

# plots and HTML
BLUE, ORANGE, RED, GREY = '#2a6fb0', '#d9822b', '#c0392b', '#6b7280'
GREEN, GRID, INK = '#2e8b57', '#e5e7eb', '#374151'
SERIES = BLUE, ORANGE, GREEN, '#8e4d9e', RED, GREY, '#b8860b', '#008b8b'  # of the page's charts
OBJECT_PATHS = BLUE, ORANGE, '#3a9d5d', '#8e5aa8'
