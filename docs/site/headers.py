"""Doxygen's input filter: prints a public header with its comments in the form that Doxygen understands.

The headers are written to be read as they are: "Errors     EIO" is a field of a docstring, "name   text" explains a parameter, and a
comment beside a member belongs to it. Usage: headers.py HEADER
"""
import re
import sys

FIELDS = {'Returns', 'Ownership', 'Errors', 'Threads', 'Cost', 'Source', 'Numbers'}
# "name   text" or "in, out  text", three blanks in. A shape may follow the name: "bytes    [size] text".
PARAMETER = re.compile(r'^ {2,4}([a-z_]\w*(?:, [a-z_]\w*)*) {2,}(\S.*)$')
FIELD = re.compile(r'^([A-Z][a-z]+) {2,}(\S.*)$')
SECTION = re.compile(r'^/\* -{4} (.*?) -{2,}')


def clean(text):
    """What Doxygen would take for HTML or for a command stays text."""
    text = re.sub(r'\\', r'\\\\', text)
    text = re.sub(r'<(?=[A-Za-z/])', r'\\<', text)
    return re.sub(r'([@#])(?=\w)', r'\\\1', text)


def body(lines):
    """The text of a comment, without its frame."""
    text = '\n'.join(lines).strip()
    text = re.sub(r'^/\*+ ?', '', text)
    text = re.sub(r' *\*/$', '', text)
    return [re.sub(r'^ *\* ?', '', line).rstrip() if i else line for i, line in enumerate(text.split('\n'))]


def docstring(lines, declaration):
    """The text of a docstring with Doxygen's commands. `declaration` is the code after it, which has the parameters' names."""
    out, inside = [], None
    for line in body(lines):
        field, parameter = FIELD.match(line), PARAMETER.match(line)
        if field and field[1] in FIELDS:
            command = '@return' if field[1] == 'Returns' else f'@par {field[1]}\n'
            out += ['', f'{command} {clean(field[2])}']
            inside = 'field'
        elif parameter and inside != 'code':
            names = parameter[1].split(', ')
            known = all(re.search(rf'\b{name}\b', declaration) for name in names) and '(' in declaration
            if inside != 'parameter':
                out.append('')
            out.append(f'@param {",".join(names)} {clean(parameter[2])}' if known else f'- `{parameter[1]}` {clean(parameter[2])}')
            inside = 'parameter'
        elif not line:
            out.append('')
            inside = None
        elif inside in ('field', 'parameter') and line.startswith('  '):
            out.append('  ' + clean(line.strip()))
        elif line.startswith('    '): # an example
            out.append(line)
            inside = 'code'
        else:
            out.append(clean(line))
            inside = None
    return out


def comment(text, begin='/**'):
    return begin + ' ' + '\n'.join(text) + ' */'


def filtered(source):
    lines, out, i, open_section = source.split('\n'), [], 0, False
    while i < len(lines):
        line = lines[i]
        at = line.find('/*')
        if at < 0 or line.rstrip().endswith('\\'):
            out.append(line)
            i += 1
            continue
        end = i
        while '*/' not in lines[end]:
            end += 1
        block = [line[at:]] + lines[i + 1:end + 1]
        tail = block[-1].split('*/', 1)[1]
        block[-1] = block[-1].split('*/', 1)[0] + '*/'
        code = line[:at]
        declaration = '\n'.join(lines[end + 1:end + 40])
        declaration = re.split(r'[;{]', declaration)[0]
        section = SECTION.match(block[0]) if not code.strip() else None
        if not any(text.strip() for text in out): # the head of the file
            text = body(block)
            text = text if text[0] else text[1:]
            text = [clean(part) if not part.startswith('    ') else part for part in text]
            text[0] = re.sub(r'^\S+\.h - ', '@brief ', text[0])
            out.append(comment(['@file'] + text))
        elif section:
            if open_section:
                out.append('/**@}*/')
            rest = [clean(part) if not part.startswith('    ') else part for part in body(block)[1:]]
            out += [comment([f'@name {section[1]}'] + rest), '/**@{*/']
            open_section = True
        elif code.strip():
            out.append(code + comment([clean(part) for part in body(block)], '/**<') + tail)
        else:
            out.append(code + comment(docstring(block, declaration)) + tail)
        i = end + 1
    if open_section:
        end = max(i for i, line in enumerate(out) if re.match(r'ITER_END_DECLS|#endif', line))
        if 'ITER_END_DECLS' in '\n'.join(out[max(0, end - 3):end]):
            end = max(i for i, line in enumerate(out) if line.startswith('ITER_END_DECLS'))
        out.insert(end, '/**@}*/')
    return '\n'.join(out)


with open(sys.argv[1], encoding='utf-8') as header:
    print(filtered(header.read()))
