import os

# GitPython looks for git when it is imported, and raises; here it is missed where it is needed, with a line.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
