"""Git repositories that stand for PyTorch's: made at test time, with commits that say what theirs say."""

from __future__ import annotations

from pathlib import Path

from git import Actor, Repo

AUTHOR = Actor("Ada", "ada@example.com")


class Sources:
    """A repository and the commits made in it, oldest first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = Repo.init(folder, initial_branch="main")
        self.commits: list[str] = []

    def commit(self, message: str, files: dict[str, str | None]) -> str:
        """Writes the files, removes those that are None, and commits."""
        for name, text in files.items():
            path = self.folder / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        self.repo.git.add("--all")
        self.commits.append(self.repo.index.commit(message, author=AUTHOR, committer=AUTHOR).hexsha)
        return self.commits[-1]
