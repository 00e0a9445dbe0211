#!/usr/bin/python3
"""Writes what follows from the program's own help: completion for three shells, and the man pages of the
commands whose help says all there is to say.

    tools/cli_docs.py PROGRAM [ROOT]      (default: the repository that it lies in)

A test compares the result with what is in the repository. Needs nothing but the standard library.
"""

import re
import subprocess
import sys
from pathlib import Path

# Those with a page that somebody wrote.
OWN_PAGES = {"lock", "elect", "serve", "dev", "recover", "snapshot"}
WORDS = {
    "alert": ["set", "list", "remove"],
    "member": ["list", "add", "remove", "promote", "demote", "transfer"],
    "auth": ["bootstrap", "rescue", "show", "apply", "explain", "tenants", "whoami"],
    "token": ["create", "list", "revoke"],
    "cert": ["init", "node", "client", "show"],
    "session": ["open", "renew", "close"],
    "snapshot": ["save", "inspect", "restore"],
    "help": [],
}
TAKE_NAMES = ["lock", "acquire", "elect", "ls", "show", "watch", "ttl-advice", "force-unlock", "revoke"]
RUN_COMMANDS = ["lock", "elect"]
FLAG = re.compile(r"^ {2,6}(?:-(\w), |    )?--([a-z][a-z-]*)(?:[ =](\S+))?(?: {2,}(\S.*))?\s*$")


class Command:
    def __init__(self, program, name, summary):
        self.name = name
        self.summary = summary
        self.help = output_of(program, name, "--help")
        self.flags = []  # (letter, name, value, text)
        lines = self.help.splitlines()
        for number, line in enumerate(lines):
            match = FLAG.match(line)
            if match:
                letter, flag, value, text = match.groups()
                if text is None and number + 1 < len(lines) and lines[number + 1].startswith("        "):
                    text = lines[number + 1].strip()
                if flag not in [f[1] for f in self.flags]:
                    self.flags.append((letter, flag, value, text or ""))
        if "help" not in [f[1] for f in self.flags]:
            self.flags.append(("h", "help", None, "flags and an example"))


def output_of(program, *words):
    done = subprocess.run([program, *words], check=True, capture_output=True, text=True, timeout=20)
    return done.stdout


def read(program):
    rows = re.findall(r"^  ([a-z-]+) {2,}(\S.*)$", output_of(program, "help"), re.MULTILINE)
    return [Command(program, name, summary) for name, summary in rows]


# --- shells -------------------------------------------------------------------

HEAD = "# Completion of `holdfast` for {}. Written by tools/cli_docs.py from the program's help.\n"


def bash(commands):
    out = [HEAD.format("bash"), """
_holdfast_names() {
    COMPREPLY+=($(compgen -W "$(holdfast ls --timeout 500ms 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$cur"))
}

_holdfast() {
    local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} i
    COMPREPLY=()
    if [[ $COMP_CWORD -eq 1 ]]; then
"""]
    names = " ".join(["help", *(c.name for c in commands)])
    out.append(f'        COMPREPLY=($(compgen -W "{names}" -- "$cur"))\n        return\n    fi\n')
    out.append(f"""    case $command in
    {' | '.join(RUN_COMMANDS)})
        for ((i = 2; i < COMP_CWORD; i++)); do
            if [[ ${{COMP_WORDS[i]}} == -- ]]; then
                declare -F _command_offset >/dev/null && _command_offset $((i + 1))
                return
            fi
        done
        ;;
    help)
        COMPREPLY=($(compgen -W "{' '.join(c.name for c in commands)}" -- "$cur"))
        return
        ;;
    esac
    case $command in
""")
    for c in commands:
        flags = " ".join(f"--{flag}" for _, flag, _, _ in c.flags)
        out.append(f"    {c.name})\n        [[ $cur == -* ]] && "
                   f'COMPREPLY=($(compgen -W "{flags}" -- "$cur"))\n')
        if WORDS.get(c.name):
            out.append("        [[ $COMP_CWORD -eq 2 ]] && "
                       f'COMPREPLY+=($(compgen -W "{" ".join(WORDS[c.name])}" -- "$cur"))\n')
        if c.name in TAKE_NAMES:
            out.append("        [[ $cur == -* ]] || _holdfast_names\n")
        out.append("        ;;\n")
    out.append("    esac\n}\n\ncomplete -o default -F _holdfast holdfast\n")
    return "".join(out)


def quote(text):
    return text.replace("\\", "\\\\").replace("'", "'\\''")


def zsh_text(text):
    return quote(text).replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def zsh(commands):
    out = ["#compdef holdfast\n", HEAD.format("zsh"), """
_holdfast_names() {
    local -a names
    names=(${(f)"$(holdfast ls --timeout 500ms 2>/dev/null | awk 'NR > 1 { print $1 }')"})
    compadd -a names
}

_holdfast() {
    local -a commands
    commands=(
"""]
    out += [f"        '{c.name}:{zsh_text(c.summary)}'\n" for c in commands]
    out.append("""    )
    if ((CURRENT == 2)); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    ((CURRENT--))
    case $command in
    help) _describe command commands ;;
""")
    for c in commands:
        out.append(f"    {c.name})\n        _arguments -s \\\n")
        for letter, flag, value, text in c.flags:
            end = f":{value.lower()}:" if value and value.isalpha() else ":value:" if value else ""
            out.append(f"            '--{flag}[{zsh_text(text)}]{end}' \\\n")
            if letter:
                out.append(f"            '-{letter}[{zsh_text(text)}]{end}' \\\n")
        if c.name in RUN_COMMANDS:
            out.append("            '*:: :->rest'\n"
                       "        if [[ $words[(i)--] -lt $CURRENT ]]; then\n"
                       "            _normal\n        else\n            _holdfast_names\n        fi\n")
        elif WORDS.get(c.name):
            out.append(f"            '1:word:({' '.join(WORDS[c.name])})' '*:file:_files'\n")
        elif c.name in TAKE_NAMES:
            out.append("            '1:name:_holdfast_names'\n")
        else:
            out.append("            '*:file:_files'\n")
        out.append("        ;;\n")
    out.append("    esac\n}\n\n_holdfast \"$@\"\n")
    return "".join(out)


def fish(commands):
    names = " ".join(c.name for c in commands)
    out = [HEAD.format("fish"), f"""
set -l commands {names}

function __holdfast_names
    holdfast ls --timeout 500ms 2>/dev/null | awk 'NR > 1 {{ print $1 }}'
end

complete -c holdfast -f
complete -c holdfast -n "not __fish_seen_subcommand_from $commands" -a help -d 'the list of commands'
"""]
    for c in commands:
        seen = f'-n "__fish_seen_subcommand_from {c.name}"'
        out.append(f"complete -c holdfast -n \"not __fish_seen_subcommand_from $commands\" "
                   f"-a {c.name} -d '{quote(c.summary)}'\n")
        for letter, flag, value, text in c.flags:
            short = f" -s {letter}" if letter else ""
            takes = " -r" if value else ""
            out.append(f"complete -c holdfast {seen} -l {flag}{short}{takes} -d '{quote(text)}'\n")
        if WORDS.get(c.name):
            out.append(f"complete -c holdfast {seen} -a '{' '.join(WORDS[c.name])}'\n")
        if c.name in TAKE_NAMES:
            out.append(f"complete -c holdfast {seen} -a '(__holdfast_names)'\n")
    return "".join(out)


# --- man pages ------------------------------------------------------------------

def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def page(c):
    usage = re.search(rf"^  (holdfast {re.escape(c.name)}.*)$", c.help, re.MULTILINE)
    before = c.help.split("\n  --")[0].split("\n      --")[0].split("\n  -")[0]
    about = "\n\n".join(part for part in before.split("\n\n")[1:] if not part.startswith("  "))
    example = c.help.partition("For example:\n")[2].strip()
    tail = re.split(r"\n\n(?! )", c.help.rstrip().partition("For example:")[0].rstrip())[-1]
    out = [f'.TH HOLDFAST\\-{c.name.upper()} 1 "" "Holdfast" "User Commands"\n'
           f".SH NAME\nholdfast\\-{c.name} \\- {roff(c.summary)}\n.SH SYNOPSIS\n.nf\n"]
    out.append(roff(usage.group(1) if usage else f"holdfast {c.name} [FLAGS]") + "\n.fi\n.SH DESCRIPTION\n")
    out.append(roff((about or c.summary[0].upper() + c.summary[1:] + ".").strip()) + "\n")
    if not example and tail and not FLAG.match(tail.splitlines()[0]) and tail not in before:
        out.append(".PP\n" + roff(tail) + "\n")
    out.append(".SH OPTIONS\n")
    for letter, flag, value, text in c.flags:
        short = f"\\-{letter}, " if letter else ""
        out.append(f".TP\n.B {short}\\-\\-{roff(flag)}{' ' + roff(value) if value else ''}\n{roff(text)}\n")
    if example:
        out.append(".SH EXAMPLES\n.nf\n" + roff(example) + "\n.fi\n")
    out.append(".SH SEE ALSO\n.BR holdfast (1),\nwhich has the exit codes and the environment\n")
    return "".join(out)


def main():
    program = Path(sys.argv[1]).resolve()
    root = Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).resolve().parent.parent)
    commands = read(program)
    files = {"contrib/completion/holdfast.bash": bash(commands),
             "contrib/completion/_holdfast": zsh(commands),
             "contrib/completion/holdfast.fish": fish(commands)}
    for c in commands:
        if c.name not in OWN_PAGES:
            files[f"docs/man/holdfast-{c.name}.1"] = page(c)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
