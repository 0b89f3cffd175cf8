# Turns the --help of iterbench and iterpack into a manual page (groff's man macros).
#
# What the text must look like:
#   NAME: what it is        the first line
#   text                    a paragraph; "exit status: ..." has a section of its own
#   head:                   a line that ends with a colon: what the rows below it are
#     NAME command ...      a row, two blanks in: a command, and its explanation in a second column
#     --option VALUE        the same for an option
#         --option VALUE    six blanks in: an option of the command above
#                           a line that begins in the second column continues the explanation
#   @ COMMAND               from here on: the help of one command. Of it only options that are new are kept
# The second column begins where the continuation lines begin, or else after two blanks.

function escape(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return text
}

# A line of text. A dot or a quote at its begin would be a macro.
function put(text) {
    if (text ~ /^[.']/) text = "\\&" text
    return escape(text) "\n"
}

# Option or command, bold; what follows it stays as it is.
function tag(left, n, i, words, out) {
    n = split(left, words, " ")
    out = "\\fB" escape(words[1])
    i = 2
    if (words[1] == name && n > 1 && words[2] !~ /^[A-Z\[]/) out = out " " escape(words[i++])
    out = out "\\fR"
    for (; i <= n; i++) out = out " " escape(words[i])
    return out
}

function row(left, right, indent, text) {
    text = ".TP\n" tag(left) "\n" put(right)
    if (left ~ "^" name) {
        if (of != "") return # its usage once more
        synopsis = synopsis ".br\n" tag(left) "\n"
        if (right != "") commands = commands close_nested() text
    } else if (of != "") {
        if (!(left in seen)) news = news text
        else { split(left, option, " "); old = old (old != "" ? ", " : "") "\\fB" escape(option[1]) "\\fR" }
    } else if (indent > 2) {
        if (!nested) commands = commands ".RS\n"
        nested = 1
        commands = commands text
    } else {
        options = options text
    }
    if (of == "") seen[left] = 1
}

function close_nested() {
    if (!nested) return ""
    nested = 0
    return ".RE\n"
}

# Rows are kept until the block ends, because only then the second column is known.
function flush_rows(    i, column, line, at, left, right, indent) {
    column = 0
    for (i = 1; i <= n_rows; i++) {
        match(rows[i], /^ */)
        if (RLENGTH >= 16 && (!column || RLENGTH < column)) column = RLENGTH
    }
    left = ""
    for (i = 1; i <= n_rows; i++) {
        line = rows[i]
        match(line, /^ */)
        if (column && RLENGTH >= column) {
            right = right (right != "" ? " " : "") substr(line, column + 1)
            continue
        }
        if (left != "") row(left, right, indent)
        indent = RLENGTH
        line = substr(line, indent + 1)
        at = column && length(line) + indent > column && substr(line, column - indent, 1) == " " ? column - indent : match(line, /  +/)
        left = at ? substr(line, 1, at) : line
        right = at ? substr(line, at + 1) : ""
        sub(/ +$/, "", left)
        sub(/^ +/, "", right)
    }
    if (left != "") row(left, right, indent)
    n_rows = 0
}

function end_paragraph() {
    if (paragraph == "") return
    if (paragraph ~ /^exit status: /) status = put(substr(paragraph, 14))
    else if (of == "") description = description ".PP\n" put(paragraph)
    paragraph = ""
}

# The options of one command: new ones in full, the others by name.
function end_command() {
    if (of == "") return
    if (news != "" && news !~ /^ *$/) {
        more = more ".SH OPTIONS OF " toupper(of) "\n" news
        if (old != "") more = more ".PP\nAlso, as above: " old ".\n"
    } else if (old != "") {
        same = same ".TP\n\\fB" of "\\fR\n" old "\n"
    }
    news = old = ""
}

NR == 1 { title = substr($0, length(name) + 3); next }
/^@ / { flush_rows(); end_paragraph(); end_command(); of = $2; first = 1; next }
first && index($0, name ": ") == 1 { first = 0; next } # the first line of the help of a command
/^$/ { flush_rows(); end_paragraph(); next }
/^ / { end_paragraph(); rows[++n_rows] = $0; next }
/:$/ && paragraph == "" { flush_rows(); end_paragraph(); if (of == "" && /brackets/) intro = $0; next }
{ flush_rows(); paragraph = paragraph (paragraph != "" ? " " : "") $0 }

END {
    flush_rows(); end_paragraph(); end_command()
    commands = commands close_nested()
    sub(/^\.br\n/, "", synopsis)
    sub(/:$/, ".", intro)
    printf ".\\\" Made by tools/manual/make_man.sh from %s --help.\n", name
    printf ".TH %s 1 \"\" \"%s\" \"User Commands\"\n", toupper(name), version
    printf ".SH NAME\n%s \\- %s.SH SYNOPSIS\n%s", name, put(title), synopsis
    if (description != "") printf ".SH DESCRIPTION\n%s", substr(description, 5)
    printf ".SH COMMANDS\n%s", commands
    if (options != "") printf ".SH OPTIONS\n%s%s", intro != "" ? put(toupper(substr(intro, 1, 1)) substr(intro, 2)) : "", options
    printf "%s", more
    if (same != "") printf ".SH OPTIONS OF THE OTHER COMMANDS\n%s", same
    if (status != "") printf ".SH EXIT STATUS\n%s", status
    printf ".SH SEE ALSO\n\\fB%s\\fR(1)\n", name == "iterpack" ? "iterbench" : "iterpack"
}
