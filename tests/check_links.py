"""Checks the links of all Markdown files: the file exists, and so does the heading that an anchor names. Leaves out web addresses. A path of
the repository that a document names in code, such as `scripts/need.sh`, exists, too; results of earlier versions may name old paths.

Usage: check_links.py    in the root of the repository
"""
import glob
import os
import re
import sys
from urllib.parse import unquote

LINK = re.compile(r'\]\(<?([^)<> ]+)>?\)')
REFERENCE = re.compile(r'^\[[^\]]+\]: +(\S+)', re.M)
PATH = re.compile(r'`(?:[A-Z]+=\S+ )?((?:bench|docs|engine|examples|iter|loaders|scripts|tests|tools|transforms)/[\w/.-]+\.(?:c|h|md|py|sh|cc))\b')


def prose(text):
    """The text without code, in which nothing is a link."""
    text = re.sub(r'^```.*?^```', '', text, flags=re.M | re.S)
    return re.sub(r'`[^`\n]*`', '', text)


def anchors(path):
    """The names that a web page of this file gives its headings: small letters, blanks as hyphens, no other signs."""
    text = re.sub(r'^```.*?^```', '', open(path, encoding='utf-8').read(), flags=re.M | re.S)
    seen = {}
    for title in re.findall(r'^#+ +(.*?) *$', text, re.M):
        name = re.sub(r'[^\w\- ]', '', title.lower()).replace(' ', '-')
        seen[name] = seen.get(name, -1) + 1
        yield name if seen[name] == 0 else f'{name}-{seen[name]}'


bad = 0
for path in sorted(glob.glob('*.md') + glob.glob('docs/**/*.md', recursive=True) + glob.glob('bench/**/*.md', recursive=True)):
    text = open(path, encoding='utf-8').read()
    for name in PATH.findall(text) if not path.startswith('bench/') else []:
        template = re.search(r'\bx\.c$|_x\.c$', name) # of a recipe: only its folder exists
        if not os.path.exists(os.path.dirname(name) if template else name):
            print(f'{path}: {name}: no such file')
            bad = 1
    text = prose(text)
    for link in LINK.findall(text) + REFERENCE.findall(text):
        if re.match('[a-z]+:', link):
            continue
        name, _, anchor = unquote(link).partition('#')
        target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(target):
            print(f'{path}: link to {link}: no such file')
        elif anchor and anchor not in anchors(target):
            print(f'{path}: link to {link}: no such heading')
        else:
            continue
        bad = 1
sys.exit(bad)
