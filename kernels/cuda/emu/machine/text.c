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

// parse_error ends the load: the log gets the line and the reason.
void parse_error(Parser *t, Token where, const char *form, ...) {
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
	if (t->log_size)
		snprintf(t->log, t->log_size, "PTX line %u: %s: %.*s", where.line, what, (int)(end - from), from);
	longjmp(t->stop, 1);
}

static bool is_name_character(char c) { return isalnum((u8)c) || (c && strchr("_$%.", c)); }

static void skip_space(Parser *t) {
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

static void advance(Parser *t) {
	skip_space(t);
	const char *from = t->p;
	if (*t->p == '"') {
		for (t->p++; *t->p && *t->p != '"'; t->p++) {}
		t->p += *t->p != 0;
	} else if (is_name_character(*t->p)) {
		for (; is_name_character(*t->p) || (t->p[0] == ':' && t->p[1] == ':'); t->p++)
			t->p += *t->p == ':';
	} else if (*t->p) {
		t->p++;
	}
	t->token = (Token){from, (int)(t->p - from), t->line};
}

void start_parser(Parser *t, const char *text) {
	t->p = text;
	t->line = 1;
	advance(t);
}

Token next_token(Parser *t) {
	Token w = t->token;
	advance(t);
	return w;
}

bool token_is(Token w, const char *s) { return (int)strlen(s) == w.n && !memcmp(w.at, s, (size_t)w.n); }
bool tokens_equal(Token a, Token b) { return a.n == b.n && !memcmp(a.at, b.at, (size_t)a.n); }
bool token_starts_with(Token w, const char *s) { return (int)strlen(s) <= w.n && !memcmp(w.at, s, strlen(s)); }
bool next_is(Parser *t, const char *text) { return token_is(t->token, text); }

bool skip_if(Parser *t, const char *text) {
	bool yes = next_is(t, text);
	if (yes)
		advance(t);
	return yes;
}

void expect(Parser *t, const char *text) {
	if (!skip_if(t, text))
		parse_error(t, t->token, "expected %s, found \"%.*s\"", text, t->token.n, t->token.at);
}

char *copy_token(Token w) {
	char *s = grow(NULL, (size_t)w.n + 1);
	memcpy(s, w.at, (size_t)w.n);
	s[w.n] = 0;
	return s;
}

bool is_number(Token w) { return w.n && (isdigit((u8)w.at[0])); }

// number_of parses an immediate: 12, 0x1f, 0f3F800000 (the bits of a float), 0d… (of a double).
u64 number_of(Parser *t, Token w) {
	char text[40], *end;
	if (w.n >= (int)sizeof text || !is_number(w))
		parse_error(t, w, "expected a number, found \"%.*s\"", w.n, w.at);
	memcpy(text, w.at, (size_t)w.n);
	text[w.n] = 0;
	bool bits = w.n > 2 && text[0] == '0' && strchr("fFdD", text[1]);
	u64 value = strtoull(bits ? text + 2 : text, &end, bits ? 16 : 0);
	if (*end == 'U')
		end++;
	if (*end)
		parse_error(t, w, "expected a number, found \"%.*s\"", w.n, w.at);
	return value;
}

u64 parse_integer(Parser *t) {
	bool minus = skip_if(t, "-");
	u64 v = number_of(t, next_token(t));
	return minus ? -v : v;
}

void add_symbol(Symbols *p, Token name, u32 at, u32 size) {
	if (p->n == p->capacity)
		p->all = grow(p->all, sizeof *p->all * (size_t)(p->capacity = p->capacity * 2 + 8));
	p->all[p->n++] = (Symbol){copy_token(name), at, size};
}

const Symbol *find_symbol(const Symbols *p, Token name) {
	for (int n = p->n; n-- > 0;)
		if (token_is(name, p->all[n].name))
			return &p->all[n];
	return NULL;
}

// type_size is the size of .u32 and the like in bytes.
u32 type_size(Parser *t, Token type) {
	if (type.n >= 3 && type.at[0] == '.' && strchr("usbf", type.at[1])) {
		int bits = atoi(type.at + 2);
		if (bits == 8 || bits == 16 || bits == 32 || bits == 64)
			return (u32)bits / 8;
	}
	parse_error(t, type, "no type that this machine knows: \"%.*s\"", type.n, type.at);
}
