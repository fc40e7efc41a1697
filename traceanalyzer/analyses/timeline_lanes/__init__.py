"""What a timeline draws: lanes of spans that never overlap, with the whole trace's cycles."""
