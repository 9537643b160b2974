"""The worker process: it loads the subject once and answers jobs, each in a process or thread of its own."""
