"""What a person or a program sees of a Report. Renderers never compute a number."""
