"""A backend behind HTTP: started, watched, asked, stopped."""
