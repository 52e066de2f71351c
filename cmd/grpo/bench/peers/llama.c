// Measures llama.cpp, or scores with it: what `grpo bench prefill|decode` and `grpo score` do, for a GGUF file.
//
//   llama LIBRARIES MODEL.gguf THREADS prefill TOKENS RUNS
//   llama LIBRARIES MODEL.gguf THREADS decode SEQUENCES CONTEXT RUNS UNIFIED
//   llama LIBRARIES MODEL.gguf THREADS score < sequences
//   llama LIBRARIES MODEL.gguf THREADS tokens SPECIAL < texts
//   llama LIBRARIES MODEL.gguf THREADS greedy TOKENS < prompt
//
// The first two print the median tokens per second, after a run that is not counted. score reads a
// sequence of token ids from each line and prints the log-probability of each token but the first. tokens reads texts
// that end in a zero byte and prints the ids of each, reading special tokens in it as such where SPECIAL is 1. greedy
// prints the ids of the most likely tokens after a prompt, and then what they spell.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ggml-backend.h"
#include "llama.h"

enum { DECODE_STEPS = 16, MOST_TOKENS = 4096, MOST_RUNS = 64 };

static void die(const char *what) {
    fprintf(stderr, "llama: %s\n", what);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void quiet(enum ggml_log_level level, const char *text, void *user) {
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct llama_context *open_context(struct llama_model *m, int tokens, int sequences, int threads, int unified, int exact) {
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = (tokens + 255) / 256 * 256 * sequences;
    p.n_batch = tokens * sequences < 2048 ? 2048 : tokens * sequences;
    p.n_seq_max = sequences;
    p.n_threads = p.n_threads_batch = threads;
    p.kv_unified = unified;
    if (exact) { // single precision throughout, to compare numbers
        p.type_k = p.type_v = GGML_TYPE_F32;
        p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    }
    struct llama_context *c = llama_init_from_model(m, p);
    if (!c) die("no context");
    return c;
}

static void add(struct llama_batch *b, int token, int position, int sequence, int wanted) {
    if (b->n_tokens == MOST_TOKENS) die("more than 4096 tokens at a time");
    int i = b->n_tokens++;
    b->token[i] = token;
    b->pos[i] = position;
    b->n_seq_id[i] = 1;
    b->seq_id[i][0] = sequence;
    b->logits[i] = wanted;
}

static void compute(struct llama_context *c, struct llama_batch *b) {
    if (llama_decode(c, *b)) die("decode failed");
    llama_synchronize(c);
    b->n_tokens = 0;
}

static void prefill(struct llama_context *c, struct llama_batch *b, int tokens, int vocab) {
    llama_memory_clear(llama_get_memory(c), true);
    for (int i = 0; i < tokens; i++) add(b, rand() % vocab, i, 0, i == tokens - 1);
    compute(c, b);
}

// Every sequence gets a context of its own; then each run adds a few tokens to all of them, in place of those of the run before.
static double decode_run(struct llama_context *c, struct llama_batch *b, int sequences, int context, int vocab) {
    if (!llama_memory_seq_rm(llama_get_memory(c), -1, context, -1)) die("tokens stay in the cache");
    double begin = now();
    for (int at = context; at < context + DECODE_STEPS; at++) {
        for (int i = 0; i < sequences; i++) add(b, rand() % vocab, at, i, 1);
        compute(c, b);
    }
    return sequences * DECODE_STEPS / (now() - begin);
}

static void score(struct llama_context *c, struct llama_batch *b, const int *tokens, int n, int vocab) {
    llama_memory_clear(llama_get_memory(c), true);
    for (int i = 0; i < n - 1; i++) add(b, tokens[i], i, 0, 1);
    compute(c, b);
    for (int i = 0; i < n - 1; i++) {
        const float *logits = llama_get_logits_ith(c, i);
        double most = logits[0], sum = 0;
        for (int v = 1; v < vocab; v++) most = logits[v] > most ? logits[v] : most;
        for (int v = 0; v < vocab; v++) sum += exp(logits[v] - most);
        printf("%.9g%c", logits[tokens[i + 1]] - most - log(sum), i == n - 2 ? '\n' : ' ');
    }
}

static void score_lines(struct llama_context *c, struct llama_batch *b, int vocab) {
    static char line[16 * MOST_TOKENS];
    static int tokens[MOST_TOKENS];
    while (fgets(line, sizeof line, stdin)) {
        int n = 0;
        for (char *word = strtok(line, " \n"); word && n < MOST_TOKENS; word = strtok(NULL, " \n")) tokens[n++] = atoi(word);
        if (n < 2) die("a sequence has two tokens at least");
        score(c, b, tokens, n, vocab);
    }
}

static int text_to_tokens(const struct llama_vocab *v, const char *text, size_t bytes, int special, int *tokens) {
    int n = llama_tokenize(v, text, bytes, tokens, MOST_TOKENS, false, special);
    if (n < 0) die("a text has too many tokens");
    return n;
}

static size_t read_all(char **text) {
    size_t n = 0, room = 1 << 20;
    *text = malloc(room);
    for (size_t got; *text && (got = fread(*text + n, 1, room - n - 1, stdin)) > 0;)
        if ((n += got) == room - 1) *text = realloc(*text, room *= 2);
    if (!*text) die("no memory");
    (*text)[n] = 0;
    return n;
}

static void print_tokens(const int *tokens, int n) {
    for (int i = 0; i < n; i++) printf(i ? " %d" : "%d", tokens[i]);
    printf("\n");
}

static void tokens_of_texts(const struct llama_vocab *v, int special) {
    static int tokens[MOST_TOKENS];
    char *text;
    size_t n = read_all(&text);
    for (size_t at = 0; at < n; at += strlen(text + at) + 1)
        print_tokens(tokens, text_to_tokens(v, text + at, strlen(text + at), special, tokens));
}

static void greedy(struct llama_context *c, struct llama_batch *b, const struct llama_vocab *v, int most) {
    static int tokens[MOST_TOKENS];
    char *text, piece[256];
    size_t bytes = read_all(&text);
    int prompt = text_to_tokens(v, text, bytes, true, tokens), n = prompt;
    for (int i = 0; i < n; i++) add(b, tokens[i], i, 0, i == n - 1);
    while (n < MOST_TOKENS && n - prompt < most) {
        compute(c, b);
        const float *logits = llama_get_logits_ith(c, -1);
        int best = 0;
        for (int k = 1; k < llama_vocab_n_tokens(v); k++) best = logits[k] > logits[best] ? k : best;
        tokens[n] = best;
        if (llama_vocab_is_eog(v, tokens[n++])) break;
        add(b, best, n - 1, 0, 1);
    }
    print_tokens(tokens + prompt, n - prompt);
    for (int i = prompt; i < n; i++) {
        int got = llama_token_to_piece(v, tokens[i], piece, sizeof piece, 0, false);
        if (got > 0) fwrite(piece, 1, got, stdout);
    }
}

int main(int argc, char **argv) {
    if (argc < 5) die("usage: see the top of llama.c");
    const char *verb = argv[4];
    int threads = atoi(argv[3]);
    int number[4] = {0};
    for (int i = 5; i < argc && i < 9; i++) number[i - 5] = atoi(argv[i]);
    llama_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(argv[1]);
    llama_backend_init();
    struct llama_model *m = llama_model_load_from_file(argv[2], llama_model_default_params());
    if (!m) die("the model cannot be loaded");
    int vocab = llama_vocab_n_tokens(llama_model_get_vocab(m));
    struct llama_batch b = llama_batch_init(MOST_TOKENS, 0, 1);
    double rates[1 + MOST_RUNS];
    int runs = 0, asked = number[!strcmp(verb, "decode") ? 2 : 1];
    if (!strcmp(verb, "score")) {
        score_lines(open_context(m, MOST_TOKENS, 1, threads, 1, 1), &b, vocab);
        return 0;
    } else if (!strcmp(verb, "tokens")) {
        tokens_of_texts(llama_model_get_vocab(m), number[0]);
        return 0;
    } else if (!strcmp(verb, "greedy")) {
        greedy(open_context(m, MOST_TOKENS, 1, threads, 1, 1), &b, llama_model_get_vocab(m), number[0]);
        return 0;
    } else if (strcmp(verb, "prefill") && strcmp(verb, "decode")) {
        die("verb: expected prefill, decode, score, tokens or greedy");
    } else if (asked < 1 || asked > MOST_RUNS) {
        die("runs: expected 1 to 64");
    } else if (!strcmp(verb, "prefill")) {
        struct llama_context *c = open_context(m, number[0], 1, threads, 1, 0);
        for (; runs <= asked; runs++) {
            double begin = now();
            prefill(c, &b, number[0], vocab);
            rates[runs] = number[0] / (now() - begin);
        }
    } else {
        struct llama_context *c = open_context(m, number[1] + DECODE_STEPS, number[0], threads, number[3], 0);
        for (int at = 0; at < number[1]; at++) {
            for (int i = 0; i < number[0]; i++) add(&b, rand() % vocab, at, i, 0);
            compute(c, &b);
        }
        for (; runs <= asked; runs++) rates[runs] = decode_run(c, &b, number[0], number[1], vocab);
    }
    qsort(rates + 1, runs - 1, sizeof *rates, ascending); // the first warmed up
    printf("{\"tokens_per_s\":%.2f}\n", (rates[1 + (asked - 1) / 2] + rates[1 + asked / 2]) / 2);
    return 0;
}
