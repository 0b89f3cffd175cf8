# Words and phrases that hide the subject or the verb of a sentence. Prints each with its place.
# Usage: LC_ALL=C awk -f check_words.awk FILE...
#
# In C files (.c .h .cu .cc) it looks at comments, joined over their lines, and at strings; in other
# files at whole lines. Only in comments of C files "who" alone is one of the words: in other texts
# it is also the name of a program or the beginning of a question.
function look(text, line, words,   t, at) {
    t = " " tolower(text) " "
    gsub(/[ \t]+/, " ", t)
    gsub(right, " ok ", t)
    if (!match(t, words)) return
    at = RSTART > 24 ? RSTART - 24 : 1
    t = substr(t, at, RLENGTH + 48)
    sub(/^ /, "", t)
    print FILENAME ":" line ": " t
    bad = 1
}
function end_comment() {
    look(comment, begun, in_comments)
    comment = ""; inside = 0
}
function look_at_c(line,   at, text) {
    while (1) {
        if (inside) {
            sub(/^ *\*( |$)/, " ", line)
            at = index(line, "*/")
            if (!at) { comment = comment " " line; return }
            comment = comment " " substr(line, 1, at - 1)
            line = substr(line, at + 2)
            end_comment()
        }
        if (!match(line, /"([^"\\]|\\.)*"|'([^'\\]|\\.)+'|\/\*|\/\//)) return
        text = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        if (text == "//") { look(line, FNR, in_comments); return }
        if (text == "/*") { inside = 1; begun = FNR }
        else look(text, FNR, in_texts)
    }
}
BEGIN {
    # These are right.
    right = "(said to|(stand|stands) in the way|due (to|at|when)|(users|people|readers|those|all|caller|caller,) who)"
    stem = "whoever|nobody|somebody|(is|are|was|were|be) said|(to|not|can|cannot|could) be had|" \
           "(stand|stands) in (a|an|the|its|their|this)|(is|are) due|(to|for|of|by|with|from|than|behind) who"
    done = "|(is|are|was|were|be) done with *[.,;:)]"
    rest = "|[.;:] who (asks|calls|comes|gets|goes|has|looks|makes|needs|opens|reads|sees|takes|waits|wants|writes)"
    in_texts = "[^a-z0-9_<](" stem ")[^a-z0-9_]" done rest
    in_comments = "[^a-z0-9_<](who|" stem ")[^a-z0-9_]" done
}
FNR == 1 { is_c = FILENAME ~ /\.(c|h|cu|cc)$/; inside = 0; comment = "" }
is_c { look_at_c($0); next }
{ look($0, FNR, in_texts) }
END { exit bad }
