"""Scripts that recipes run with a backend's own Python: files and commands in the form that the backend wants.

Standard library only, for the backend's environment has neither this package nor its dependencies.
"""
