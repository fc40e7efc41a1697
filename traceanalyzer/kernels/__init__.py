"""What kind of work each GPU op does, told from its name."""
