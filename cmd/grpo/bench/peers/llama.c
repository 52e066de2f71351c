// Measures llama.cpp, or scores with it: what `grpo bench prefill|decode` and `grpo score` do, for a GGUF file.
//
//   llama LIBRARIES MODEL.gguf THREADS prefill TOKENS RUNS
//   llama LIBRARIES MODEL.gguf THREADS decode SEQUENCES CONTEXT RUNS UNIFIED
//   llama LIBRARIES MODEL.gguf THREADS score < sequences
//
// The first two print the median tokens per second, after a run that is not counted. The last reads a
// sequence of token ids from each line and prints the log-probability of each token but the first.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ggml-backend.h"
#include "llama.h"

enum { DECODE_STEPS = 16, MOST_TOKENS = 4096 };

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

// Every sequence gets a context of its own; then each run adds a few tokens to all of them.
static double decode_run(struct llama_context *c, struct llama_batch *b, int sequences, int *at, int vocab) {
    double begin = now();
    for (int s = 0; s < DECODE_STEPS; s++, ++*at) {
        for (int i = 0; i < sequences; i++) add(b, rand() % vocab, *at, i, 1);
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
    double rates[64];
    int runs = 0;
    if (!strcmp(verb, "score")) {
        score_lines(open_context(m, MOST_TOKENS, 1, threads, 1, 1), &b, vocab);
        return 0;
    } else if (!strcmp(verb, "prefill")) {
        struct llama_context *c = open_context(m, number[0], 1, threads, 1, 0);
        for (; runs <= number[1]; runs++) {
            double begin = now();
            prefill(c, &b, number[0], vocab);
            rates[runs] = number[0] / (now() - begin);
        }
    } else if (!strcmp(verb, "decode")) {
        struct llama_context *c = open_context(m, number[1] + DECODE_STEPS * (number[2] + 1), number[0], threads, number[3], 0);
        int at = 0;
        for (; at < number[1]; at++) {
            for (int i = 0; i < number[0]; i++) add(&b, rand() % vocab, at, i, 0);
            compute(c, &b);
        }
        for (; runs <= number[2]; runs++) rates[runs] = decode_run(c, &b, number[0], &at, vocab);
    } else {
        die("verb: expected prefill, decode or score");
    }
    qsort(rates + 1, runs - 1, sizeof *rates, ascending); // the first warmed up
    printf("{\"tokens_per_s\":%.2f}\n", rates[1 + (runs - 1) / 2]);
    return 0;
}
