# Comments of C files: at most 100 columns, and none that breaks its statement over lines.
# Usage: LC_ALL=C awk -f check_style.awk FILE...
#
# clang-format (ReflowComments: false) neither breaks a comment nor moves it. If code and a trailing
# comment do not fit in one line together, it breaks the code instead.
#
#   code     this line without comments, and with "" for each string
#   whole    this line as it is, in characters
#   before   the line of code before it; before_whole likewise; starts = it begins a statement
function tell(what) {
    print FILENAME ":" FNR ": " what
    bad = 1
}
function without_comments(line,   out, at) { # also sets commented, inside and unfinished
    commented = inside; unfinished = 0; out = ""
    while (1) {
        if (inside) {
            at = index(line, "*/")
            if (!at) { unfinished = out ~ /[^ ]/; return out }
            line = substr(line, at + 2); inside = 0
        }
        at = index(line, "/*")
        if (!at) return out line
        commented = 1; inside = 1
        out = out substr(line, 1, at - 1); line = substr(line, at + 2)
    }
}
function net_braces(text) { return gsub(/\{/, "{", text) - gsub(/\}/, "}", text) }
# Two lines of one statement which clang-format would have joined, had it not been for the comment.
function breaks(   tail, rest) {
    if (!commented || inside || !starts || whole ~ /\/\* NOLINT/) return 0
    tail = code; sub(/^ +/, "", tail)
    rest = whole; sub(/^ +/, "", rest); sub(/ *\/\*.*$/, "", rest)
    if (tail !~ /[;{]$/ || before !~ /[^ ]/ || before ~ /[;{}:\\]$/) return 0
    if (before ~ /^[ }]*(else|for|while|do|switch|case|default|#)/ || before ~ /^ *[{.[]/) return 0
    if (before ~ /\)$/ && before !~ /^ *if \(/) return 0
    if (before ~ /"$/ && tail ~ /^"/) return 0
    if (net_braces(before " " tail) != (tail ~ /\{$/)) return 0
    return length(before_whole) + 1 + length(rest) <= 100
}
FNR == 1 { inside = 0; before = ""; starts = 1; broken = "" }
{
    whole = $0
    gsub(/[\200-\277]/, "", whole) # what follows the first byte of a character
    line = $0
    gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
    code = without_comments(line)
    sub(/ +$/, "", code)
    if (unfinished) tell("a trailing comment of several lines: put it above")
    if ((commented || code ~ /\/\//) && length(whole) > 100)
        tell("a comment of " length(whole) " columns, above 100")
    if (broken && code !~ /^[ }]*else/) { print broken; bad = 1 }
    broken = breaks() ? FILENAME ":" FNR ": a statement broken by its comment: put it above" : ""
    starts = before ~ /[;{}:]$/ || before !~ /[^ ]/ || before ~ /^#/
    before = code; before_whole = whole
}
END { exit bad }
