"""Sixty faults of numbisect's own, planted one at a time to see which tests catch each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One change of the source.

    group: what is struck. file: under bisector/. old: text that stands there once; new: stands in its place.
    likely: folders or files of tests that should catch it, the most likely first (such as
    "tests/core/test_verdict.py").
    """

    name: str
    group: str
    file: str
    old: str
    new: str
    likely: tuple[str, ...]


HOOKS, RULES, STATUSES, WRITERS = "hooks", "rules of the verdict", "exit statuses", "writers"
JOURNAL, WIRE, PAGE, FIXES = "journal and resume", "wire", "page", "fix lines"
PROCESSES, SEARCH = "worker and processes", "search core"

_SEED = "tests/inductor/test_hooks_seeds.py"
_STABLE = "tests/inductor/test_hooks_stability.py"
_SELFTEST = "tests/inductor/test_selftest.py"
_EACH_KIND = "tests/e2e/test_each_kind.py"
_ARITHMETIC = "tests/inductor/test_hooks_arithmetic.py"
_CONSTANTS = "tests/inductor/test_hooks_constants.py"
_GRAPH = "tests/inductor/test_hooks_graph.py"
_KERNELS = "tests/inductor/test_hooks_kernels.py"
_REDUCTION = "tests/inductor/test_hooks_reduction.py"
_PROGRAM = "tests/inductor/test_hooks_program.py"
_VERDICT = "tests/core/test_verdict.py"
_SCRIPTS = "tests/replay/test_scripts.py"
_REPLAYED = "tests/replay/test_replayed.py"
_TRUTHS = "tests/replay/test_truths.py"
_PIPELINE = "tests/explain/test_pipeline.py"
_STATUS = "tests/faults/test_exit_status.py"

FAULTS = (
    # -- hooks: one for each kind of decision that has a hook --------------------------------------------
    Fault(
        "the second product of an unrolled sum has the ID of the first (fma)",
        HOOKS,
        "inductor/hooks/fma.py",
        'count = f"#{copy}" if copy else ""',
        'count = f"#{copy}" if copy > 1 else ""',
        (_ARITHMETIC, "tests/triton/test_triton_hooks.py"),
    ),
    Fault(
        "a denied loop stays vector code where another loop of its nest is allowed (vec)",
        HOOKS,
        "inductor/hooks/vec.py",
        "vectorize = all(loops)",
        "vectorize = any(loops)",
        ("tests/inductor/test_hooks_vec.py", _ARITHMETIC, _STABLE),
    ),
    Fault(
        "a denied cast to bfloat16 is undone by the one that follows it (cast)",
        HOOKS,
        "inductor/hooks/cast.py",
        "if tag is None or control.allows(_decision(tag.node, dtype).id):",
        "if tag is None or dtype is torch.bfloat16 or control.allows(_decision(tag.node, dtype).id):",
        (_ARITHMETIC, _GRAPH),
    ),
    Fault(
        "the scalar of a subtraction is no decision (const)",
        HOOKS,
        "inductor/hooks/const.py",
        '_ROUNDS_SCALAR = frozenset({"aten.add", "aten.sub"})',
        '_ROUNDS_SCALAR = frozenset({"aten.add"})',
        (_ARITHMETIC, _EACH_KIND),
    ),
    Fault(
        "after one convolution that is denied all that follow keep eager's order (layout)",
        HOOKS,
        "inductor/hooks/layout.py",
        "        graph.layout_opt = True\n        if preferred:",
        "        if preferred:",
        (_GRAPH, _STABLE),
    ),
    Fault(
        "packed weights are asked for as matches of a pattern (prepack)",
        HOOKS,
        "inductor/hooks/match.py",
        "_claims.insert(0, entries)",
        "_claims.append(entries)",
        (_CONSTANTS, _SELFTEST, _EACH_KIND),
    ),
    Fault(
        "a denied template is kept where max_autotune_gemm offers it (template)",
        HOOKS,
        "inductor/hooks/template.py",
        "with config.patch(dict.fromkeys(_TUNING, False)):",
        "with config.patch(dict.fromkeys(_TUNING[:1], False)):",
        (_KERNELS, _SELFTEST, _EACH_KIND),
    ),
    Fault(
        "the plain baseline unrolls small reductions all the same (unroll)",
        HOOKS,
        "inductor/hooks/unroll.py",
        "if not control.take(tags.decision(KIND.name, node, text)):",
        "if not control.take(tags.decision(KIND.name, node, text)) and control.members:",
        (_REDUCTION, _EACH_KIND),
    ),
    Fault(
        "a reduction whose split is denied is still computed in two parts (split)",
        HOOKS,
        "inductor/hooks/split.py",
        "(parts if control.take(tags.decision(KIND.name, node, text)) else 1)",
        "(parts if control.take(tags.decision(KIND.name, node, text)) else 2)",
        (_KERNELS,),
    ),
    Fault(
        "a denied variance in two passes stays in two passes (welford)",
        HOOKS,
        "inductor/hooks/welford.py",
        "return two_steps if control.take(tags.decision(KIND.name, node, text)) else not two_steps",
        "return two_steps if control.take(tags.decision(KIND.name, node, text)) else True",
        (_REDUCTION, _SELFTEST, _EACH_KIND),
    ),
    Fault(
        "a tensor of one number is listed as computed again (inline)",
        HOOKS,
        "inductor/hooks/inline.py",
        '_CONSTANTS = frozenset({"aten.full", ',
        "_CONSTANTS = frozenset({",
        (_ARITHMETIC, "tests/inductor/test_hooks_fuse.py", _SEED),
    ),
    Fault(
        "one value that is denied alone is computed again in backward all the same (remat)",
        HOOKS,
        "inductor/hooks/remat.py",
        "            if not denied:\n",
        "            if len(denied) < 2:\n",
        ("tests/inductor/test_hooks_remat.py", _SELFTEST, _EACH_KIND),
    ),
    Fault(
        "two nodes whose fusion is denied come together through a third (fuse)",
        HOOKS,
        "inductor/hooks/fuse.py",
        "denied = [pair for pair in _pairs(node1, node2, _any) if not control.allows(_id(pair))]",
        "denied = [pair for pair in _listed_pairs(node1, node2) if not control.allows(_id(pair))]",
        ("tests/inductor/test_hooks_fuse.py", _STABLE),
    ),
    Fault(
        "a folded value is named by the view of it (cfold)",
        HOOKS,
        "inductor/hooks/cfold.py",
        "decision = _decision(node if _uniform is not None else _computed(node))",
        "decision = _decision(node)",
        (_CONSTANTS, _EACH_KIND),
    ),
    Fault(
        "each spelling of attention with a suffix is a match of its own (match)",
        HOOKS,
        "inductor/hooks/match.py",
        r'_ALTERNATIVE = re.compile(r"_pattern_\d+\w*$")',
        r'_ALTERNATIVE = re.compile(r"_pattern_\d+$")',
        (_GRAPH,),
    ),
    Fault(
        "what draws random numbers is a decision, and denied in the plain baseline (decomp)",
        HOOKS,
        "inductor/hooks/decomp.py",
        "        asked = asked and not _draws(op, args, kwargs)\n",
        "",
        (_GRAPH, "tests/inductor/test_answers_unforked.py"),
    ),
    Fault(
        "a pass that raises is not listed, so that nothing is to blame (pass)",
        HOOKS,
        "inductor/hooks/passes.py",
        "            control.take(decision)  # what it raises comes of it\n            raise",
        "            raise",
        (_GRAPH,),
    ),
    Fault(
        "what is not written over its input is listed, and what is is not (inplace)",
        HOOKS,
        "inductor/hooks/inplace.py",
        "if _inplace() != before:",
        "if _inplace() == before:",
        ("tests/inductor/test_hooks_buffers.py", _SELFTEST, _EACH_KIND),
    ),
    Fault(
        "memory whose reuse is denied goes to the next value (reuse)",
        HOOKS,
        "inductor/hooks/reuse.py",
        "setattr(free_line, _REFUSED, True)",
        "setattr(free_line, _REFUSED, False)",
        ("tests/inductor/test_hooks_buffers.py", _EACH_KIND),
    ),
    Fault(
        "the recording of a graph for inference is named as that of a backward graph (cudagraph)",
        HOOKS,
        "inductor/hooks/cudagraph.py",
        'half = "backward" if graph.fx_kwargs.get("is_backward") else "forward"',
        'half = "backward" if graph.fx_kwargs.get("is_inference") else "forward"',
        (_KERNELS, "tests/gpu"),
    ),
    Fault(
        "a call that runs compiled code again has the number of the call before it (guard)",
        HOOKS,
        "inductor/hooks/guard.py",
        'DecisionId.of(KIND.name, call.name, f"call{call.number}")',
        'DecisionId.of(KIND.name, call.name, f"call{call.number - 1}")',
        (_PROGRAM, "tests/explain/test_script_search.py"),
    ),
    Fault(
        "each of torch's two caches is named as the other (cache)",
        HOOKS,
        "inductor/hooks/cache.py",
        '{AOTAutogradCache: "autograd_cache", FxGraphCache: "fx_graph_cache"}',
        '{AOTAutogradCache: "fx_graph_cache", FxGraphCache: "autograd_cache"}',
        (_PROGRAM,),
    ),
    Fault(
        "what a function calls that is left to Python is traced all the same (frame)",
        HOOKS,
        "inductor/hooks/frame.py",
        "_TO_PYTHON = FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP)",
        "_TO_PYTHON = FrameExecStrategy(FrameAction.SKIP, FrameAction.DEFAULT)",
        (_PROGRAM, "tests/inductor/test_run_script.py"),
    ),
    Fault(
        "the plain baseline denies lowerings too, and a member allows one (lower)",
        HOOKS,
        "core/kinds.py",
        "so it names a place, not a cause.\n    kept_in_plain=True,",
        "so it names a place, not a cause.\n    kept_in_plain=False,",
        ("tests/inductor/test_control.py", "tests/inductor/test_hooks_fuse.py", _STABLE),
    ),
    # -- rules of the verdict ----------------------------------------------------------------------------
    Fault(
        "check does not follow the nodes of what one ulp moves as far",
        RULES,
        "core/verdict.py",
        "Rule.CASTS, Rule.EXACT_DTYPE, Rule.ACCURACY, Rule.ROUNDING, Rule.NO_REFERENCE, Rule.BEYOND_NUDGES,",
        "Rule.CASTS, Rule.EXACT_DTYPE, Rule.ACCURACY, Rule.NO_REFERENCE, Rule.BEYOND_NUDGES,",
        (_TRUTHS, _SCRIPTS, "tests/explain/test_localisation.py"),
    ),
    Fault(
        "ten times what rounding makes is far more than rounding makes",
        RULES,
        "core/far_elements.py",
        "FAR = 1000.0",
        "FAR = 10.0",
        (_VERDICT, "tests/core/test_script_verdict.py", _TRUTHS),
    ),
    Fault(
        "a cast that is not executed excuses a node that is wrong",
        RULES,
        "core/value_verdict.py",
        "        if (wrong := self._by_node()) is not None:\n"
        "            return wrong\n"
        "        if not (cast := self._cast()):\n"
        "            return self._by_outputs()\n",
        "        if not (cast := self._cast()):\n"
        "            return self._by_node() or self._by_outputs()\n",
        (_VERDICT, _TRUTHS),
    ),
    Fault(
        "a repair is proved though some of its decisions never came up",
        RULES,
        "core/judge.py",
        "gone = sorted(set(result.measurement.vanished) & set(denied))",
        "absent = set(result.measurement.vanished)\n"
        "    gone = sorted(absent) if set(denied) <= absent else []",
        ("tests/core/test_judge.py", _PIPELINE),
    ),
    Fault(
        "what a script says through no value is wrong though AOTAutograd alone shows it",
        RULES,
        "core/script_verdict.py",
        "lost = runs.first_bad == BY_EAGERS_KERNELS[0]",
        "lost = runs.first_bad in BY_EAGERS_KERNELS",
        ("tests/core/test_script_verdict.py", _SCRIPTS),
    ),
    Fault(
        "eager is moved by a hundred steps where one is meant",
        RULES,
        "inductor/nudges.py",
        "_AS_FAR_DOWN_AS_UP = 0.75",
        "_AS_FAR_DOWN_AS_UP = 75.0",
        ("tests/inductor/test_reference.py", "tests/inductor/test_products.py"),
    ),
    Fault(
        "one place of two hundred that rounding moves makes all of them rounding",
        RULES,
        "core/growth.py",
        "MOST_PLACES = 0.5",
        "MOST_PLACES = 0.005",
        ("tests/core/test_growth.py", _SCRIPTS),
    ),
    Fault(
        "what is put back explains a script of which one comparison then passes, and no assertion",
        RULES,
        "core/own_difference.py",
        "and all(now for before, now in pairs if not before)",
        "and any(now for before, now in pairs if not before)",
        ("tests/core/test_own_difference.py", _SCRIPTS),
    ),
    Fault(
        "a cast of a float that is cut off to the largest integer is undefined",
        RULES,
        "inductor/undefined.py",
        "outside = ~((wide > info.min - 1.0) & (wide < info.max + 1.0))",
        "outside = ~((wide >= info.min) & (wide <= info.max))",
        ("tests/inductor/test_evidence.py", "tests/inductor/test_higher_order.py"),
    ),
    Fault(
        "printed numbers that are a hundredth apart are one",
        RULES,
        "core/printed.py",
        "PRINTED_ALIKE = 1e-4",
        "PRINTED_ALIKE = 1e-2",
        ("tests/core/test_program.py", _SCRIPTS),
    ),
    Fault(
        "what was not seen stands before a call that differs",
        RULES,
        "core/shown.py",
        "        _in_calls(eager, compiled, criterion)\n        or _in_comparisons(eager, compiled)\n",
        "        _not_seen(eager, compiled)\n"
        "        or _in_calls(eager, compiled, criterion)\n"
        "        or _in_comparisons(eager, compiled)\n",
        ("tests/core/test_program.py", _SCRIPTS),
    ),
    # -- exit statuses -----------------------------------------------------------------------------------
    Fault(
        "check without a compiler calls the commit bad: 1 for 125",
        STATUSES,
        "errors.py",
        '(a C++ compiler, a network)."""\n\n    check_status = 125',
        '(a C++ compiler, a network)."""\n\n    check_status = 1',
        (_STATUS, "tests/faults/test_table.py"),
    ),
    Fault(
        "minimize ends with 0 where fresh processes did not show what it found: 0 for 3",
        STATUSES,
        "explain/pipeline.py",
        "FOUND if proved.confirmed else UNCONFIRMED",
        "FOUND if found.confirmed else UNCONFIRMED",
        (_PIPELINE, _REPLAYED),
    ),
    Fault(
        "a search that Ctrl-C ends has the status of one that found nothing: 3 for 130",
        STATUSES,
        "explain/pipeline.py",
        "return _finish(session, session.known().stopped(Interrupted()).proved(), INTERRUPTED)",
        "return _finish(session, session.known().stopped(Interrupted()).proved(), UNCONFIRMED)",
        (_PIPELINE, "tests/faults/test_table.py"),
    ),
    Fault(
        "check whose budget is spent does not have git bisect skip the commit: 3 for 125",
        STATUSES,
        "cli/main.py",
        'line, status = f"{endings.words(error.reason)}, and there is no answer yet", 125 if check else 3',
        'line, status = f"{endings.words(error.reason)}, and there is no answer yet", 3',
        (_STATUS,),
    ),
    # -- writers -----------------------------------------------------------------------------------------
    Fault(
        "a repro of a graph that stumbles ends as if it diverged",
        WRITERS,
        "core/repro_file.py",
        "sys.exit({SAID} or 125)",
        "sys.exit({SAID} or 1)",
        ("tests/inductor/test_repro_file.py", _REPLAYED),
    ),
    Fault(
        "a repro of some graphs of a script compiles those after them",
        WRITERS,
        "explain/script_repro.py",
        "number = next(n for n, other in enumerate(known, 1) if other is compiling)",
        "number = next(n for n, other in enumerate(known) if other is compiling)",
        ("tests/explain/test_script_repro.py",),
    ),
    Fault(
        "a repro in pytest puts back the first of its settings alone",
        WRITERS,
        "inductor/graph/settings_source.py",
        'body += [f"    {put}" for put in puts]',
        'body += [f"    {put}" for put in puts[:1]]',
        ("tests/inductor/test_repro_in_pytest.py",),
    ),
    Fault(
        "a program that fails on other inputs too leaves no second bundle",
        WRITERS,
        "attached/bundle.py",
        "_digest(computed + digest(values))[:10]",
        "_digest(computed)[:10]",
        ("tests/attached/test_attach.py", "tests/attached/test_plugin.py"),
    ),
    Fault(
        "report.md names folders of the machine in the comments of a repro",
        WRITERS,
        "report/markdown.py",
        'if block.language == "python" and not line.lstrip().startswith("#") else without_folders(line)',
        'if block.language == "python" else without_folders(line)',
        ("tests/report/test_markdown.py", _REPLAYED),
    ),
    Fault(
        "result.json has a flag's default for the value that was tried, and the reverse",
        WRITERS,
        "report/result.py",
        "        default=trial.default,\n        tried=trial.value,\n",
        "        default=trial.value,\n        tried=trial.default,\n",
        ("tests/replay/test_flags.py", _SCRIPTS, _REPLAYED),
    ),
    # -- the journal and resume --------------------------------------------------------------------------
    Fault(
        "a run goes on though a file that its target reads was edited",
        JOURNAL,
        "runner/journal.py",
        "changed = self._head.changed(target, head) or changed_files(self.files)",
        "changed = self._head.changed(target, head)",
        ("tests/runner/test_head.py", "tests/faults/test_table.py"),
    ),
    Fault(
        "a request that killed two workers is asked once more in each run that goes on",
        JOURNAL,
        "runner/journal.py",
        'self.losses[record["key"]] = self.losses.get(record["key"], 0) + 1',
        'self.losses[record["key"]] = 1',
        ("tests/runner/test_journal.py", "tests/runner/test_lab.py"),
    ),
    Fault(
        "a run goes on under an option or a variable that was not set when it began",
        JOURNAL,
        "runner/head.py",
        "for name in sorted(then.keys() | now.keys()):",
        "for name in sorted(then.keys()):",
        ("tests/runner/test_head.py", "tests/faults/test_table.py"),
    ),
    # -- the wire ----------------------------------------------------------------------------------------
    Fault(
        "equal sets have other texts in another process, so that a resumed run asks again",
        WIRE,
        "wire.py",
        "lambda kind: get_origin(kind) is frozenset, sorted)",
        "lambda kind: get_origin(kind) is frozenset, list)",
        (_REPLAYED, _SCRIPTS, "tests/faults/test_table.py"),
    ),
    Fault(
        "which repetition of a probe is asked for is lost on the way, so that none is run again",
        WIRE,
        "request_json.py",
        'for name, value in raw.items() if name != "job"}',
        'for name, value in raw.items() if name not in ("job", "trial")}',
        ("tests/core/test_case.py", "tests/runner/test_lab.py", "tests/inductor/test_answers_unforked.py"),
    ),
    # -- the page ----------------------------------------------------------------------------------------
    Fault(
        "the fix on top of the page may be one that was not confirmed",
        PAGE,
        "report/page.py",
        "if fix.confirmed and fix.paste), None)",
        "if fix.paste), None)",
        ("tests/report/test_page.py",),
    ),
    Fault(
        "what cannot be told is listed among the divergences that are not explained",
        PAGE,
        "report/triage.py",
        'diverging = [one for one in failures if one["outcome"] == "FAIL"]',
        'diverging = [one for one in failures if one["outcome"] != "PASS"]',
        ("tests/report/test_triage_page.py", "tests/e2e/test_triage.py"),
    ),
    # -- fix lines ---------------------------------------------------------------------------------------
    Fault(
        "an environment variable is offered for a flag that the script itself sets",
        FIXES,
        "core/fix_source.py",
        "return lines if settings.keys() & values.keys() else lines + exported",
        "return lines + exported",
        ("tests/core/test_fix_source.py", _REPLAYED, "tests/e2e/test_paste.py"),
    ),
    Fault(
        "the line to decorate is that of the first decorator",
        FIXES,
        "core/fix_source.py",
        "                return node.lineno",
        "                return first",
        ("tests/explain/test_script_repro.py", _SCRIPTS),
    ),
    Fault(
        "a flag is switched by `True` in the shell, where torch reads 1",
        FIXES,
        "core/fix_source.py",
        "shlex.quote(str(int(value)) if isinstance(value, bool) else str(value))",
        "shlex.quote(str(value))",
        ("tests/core/test_fix_source.py", _REPLAYED, "tests/e2e/test_paste.py"),
    ),
    # -- the worker and processes ------------------------------------------------------------------------
    Fault(
        "a worker that is started again goes on with other inputs of as many calls",
        PROCESSES,
        "runner/lab.py",
        "elif _inputs(hello) != _inputs(before):",
        "elif len(hello.calls) != len(before.calls):",
        ("tests/runner/test_lab.py", _PIPELINE),
    ),
    Fault(
        "what a program that has ended left running lives on",
        PROCESSES,
        "processes.py",
        "                os.killpg(self.popen.pid, signal.SIGKILL)\n        kill_marked(self._mark)",
        "                os.killpg(self.popen.pid, signal.SIGKILL)\n            kill_marked(self._mark)",
        ("tests/faults/test_processes.py", "tests/faults/test_worker.py"),
    ),
    Fault(
        "a worker uses hooks in its probes that were found not to work",
        PROCESSES,
        "inductor/serving/jobs.py",
        "if isinstance(request, asked.AboutCase):",
        "if isinstance(request, asked.RunVerdict):",
        ("tests/inductor/test_flag_codes.py", "tests/inductor/test_answers_unforked.py"),
    ),
    # -- the search core ---------------------------------------------------------------------------------
    Fault(
        "a member that became needless by a later drop stays in the cause",
        SEARCH,
        "core/search/minimal.py",
        "    while (fewer := _without_needless(kept, ask, 1)) != kept:\n        kept = fewer\n",
        "    kept = _without_needless(kept, ask, 1)\n",
        ("tests/core/test_minimal.py", "tests/core/test_sets.py"),
    ),
    Fault(
        "repairs that the causes do not foresee are not looked for",
        SEARCH,
        "core/search/sets.py",
        "mirrored = not (causes.unexplained or repairs.unresolved or repairs.unexpected)",
        "mirrored = not (causes.unexplained or repairs.unresolved)",
        ("tests/core/test_sets.py", "tests/explain/test_planted_sets.py"),
    ),
)
