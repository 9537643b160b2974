"""Asks builds of PyTorch. Raises MissingTool, on import, where the packages of the extra are missing."""

from ..build_question import check_packages

check_packages()
