// The tokens of PTX.
#include "text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *grow(void *p, size_t n) {
	p = realloc(p, n);
	if (!p && n) {
		fprintf(stderr, "emulated device: the host has no %zu bytes of memory left\n", n);
		abort();
	}
	return p;
}

// refuse ends the load: the log gets the line and the reason.
void refuse(Loader *t, Word where, const char *form, ...) {
	char what[400];
	va_list more;
	va_start(more, form);
	vsnprintf(what, sizeof what, form, more);
	va_end(more);
	const char *from = where.at, *end = where.at;
	while (from > t->module->text && from[-1] != '\n' && from[-1] != ';')
		from--;
	while (isspace((u8)*from))
		from++;
	while (*end && *end != '\n' && *end != ';')
		end++;
	if (t->log_room)
		snprintf(t->log, t->log_room, "PTX line %u: %s: %.*s", where.line, what, (int)(end - from), from);
	longjmp(t->stop, 1);
}

static bool of_name(char c) { return isalnum((u8)c) || (c && strchr("_$%.", c)); }

static void skip_space(Loader *t) {
	for (;; t->p++) {
		if (t->p[0] == '/' && t->p[1] == '/') {
			while (*t->p && *t->p != '\n')
				t->p++;
		} else if (t->p[0] == '/' && t->p[1] == '*') {
			for (t->p += 2; *t->p && !(t->p[0] == '*' && t->p[1] == '/'); t->p++)
				t->line += *t->p == '\n';
			t->p += *t->p != 0;
			continue;
		}
		if (!isspace((u8)*t->p))
			return;
		t->line += *t->p == '\n';
	}
}

static void advance(Loader *t) {
	skip_space(t);
	const char *from = t->p;
	if (*t->p == '"') {
		for (t->p++; *t->p && *t->p != '"'; t->p++) {}
		t->p += *t->p != 0;
	} else if (of_name(*t->p)) {
		for (; of_name(*t->p) || (t->p[0] == ':' && t->p[1] == ':'); t->p++)
			t->p += *t->p == ':';
	} else if (*t->p) {
		t->p++;
	}
	t->word = (Word){from, (int)(t->p - from), t->line};
}

void start(Loader *t, const char *text) {
	t->p = text;
	t->line = 1;
	advance(t);
}

Word take(Loader *t) {
	Word w = t->word;
	advance(t);
	return w;
}

bool same(Word w, const char *s) { return (int)strlen(s) == w.n && !memcmp(w.at, s, (size_t)w.n); }
bool same_word(Word a, Word b) { return a.n == b.n && !memcmp(a.at, b.at, (size_t)a.n); }
bool begins(Word w, const char *s) { return (int)strlen(s) <= w.n && !memcmp(w.at, s, strlen(s)); }
bool next_is(Loader *t, const char *word) { return same(t->word, word); }

bool skip_if(Loader *t, const char *word) {
	bool yes = next_is(t, word);
	if (yes)
		advance(t);
	return yes;
}

void expect(Loader *t, const char *word) {
	if (!skip_if(t, word))
		refuse(t, t->word, "expected %s, found \"%.*s\"", word, t->word.n, t->word.at);
}

char *copy_of(Word w) {
	char *s = grow(NULL, (size_t)w.n + 1);
	memcpy(s, w.at, (size_t)w.n);
	s[w.n] = 0;
	return s;
}

bool is_number(Word w) { return w.n && (isdigit((u8)w.at[0])); }

// number_of reads an immediate: 12, 0x1f, 0f3F800000 (the bits of a float), 0d… (of a double).
u64 number_of(Loader *t, Word w) {
	char text[40], *end;
	if (w.n >= (int)sizeof text || !is_number(w))
		refuse(t, w, "expected a number, found \"%.*s\"", w.n, w.at);
	memcpy(text, w.at, (size_t)w.n);
	text[w.n] = 0;
	bool bits = w.n > 2 && text[0] == '0' && strchr("fFdD", text[1]);
	u64 value = strtoull(bits ? text + 2 : text, &end, bits ? 16 : 0);
	if (*end == 'U')
		end++;
	if (*end)
		refuse(t, w, "expected a number, found \"%.*s\"", w.n, w.at);
	return value;
}

u64 take_integer(Loader *t) {
	bool minus = skip_if(t, "-");
	u64 v = number_of(t, take(t));
	return minus ? -v : v;
}

void add_place(Places *p, Word name, u32 at, u32 size) {
	if (p->n == p->room)
		p->all = grow(p->all, sizeof *p->all * (size_t)(p->room = p->room * 2 + 8));
	p->all[p->n++] = (Place){copy_of(name), at, size};
}

const Place *find_place(const Places *p, Word name) {
	for (int n = p->n; n-- > 0;)
		if (same(name, p->all[n].name))
			return &p->all[n];
	return NULL;
}

// type_size is the size of .u32 and the like in bytes.
u32 type_size(Loader *t, Word type) {
	if (type.n >= 3 && type.at[0] == '.' && strchr("usbf", type.at[1])) {
		int bits = atoi(type.at + 2);
		if (bits == 8 || bits == 16 || bits == 32 || bits == 64)
			return (u32)bits / 8;
	}
	refuse(t, type, "no type that this machine knows: \"%.*s\"", type.n, type.at);
}
