"""What the operating system itself offers: its clocks and its processes."""
