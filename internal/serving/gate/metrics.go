package gate

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are Prometheus metrics of the server.
type Metrics struct {
	http.Handler
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	active   prometheus.Gauge
	busy     prometheus.Counter
	tokens   *prometheus.CounterVec
	first    *prometheus.HistogramVec
	adapters prometheus.Gauge
}

func newMetrics() *Metrics {
	buckets := []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grpo_http_requests_total", Help: "Requests that were answered, or given up by their clients (499)."}, []string{"path", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grpo_http_request_seconds", Help: "Time to the end of the answer.", Buckets: buckets}, []string{"path"}),
		active: prometheus.NewGauge(prometheus.GaugeOpts{Name: "grpo_http_active_requests", Help: "Requests at work or waiting."}),
		busy: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "grpo_http_busy_total", Help: "Requests refused because too many of their key were there."}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grpo_tokens_total", Help: "Tokens of answers, of those that were cut, too: of prompts, of prompts and found in the cache, " +
				"of completions."},
			[]string{"model", "kind"}),
		first: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grpo_first_token_seconds", Help: "Time to the first token of a stream, to all of an answer that is none.", Buckets: buckets},
			[]string{"model"}),
		adapters: prometheus.NewGauge(prometheus.GaugeOpts{Name: "grpo_loaded_adapters", Help: "Adapters that requests have loaded."}),
	}
	all := prometheus.NewRegistry()
	all.MustRegister(m.requests, m.seconds, m.active, m.busy, m.tokens, m.first, m.adapters, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.Handler = promhttp.HandlerFor(all, promhttp.HandlerOpts{})
	return m
}

// CountTokens counts the tokens of a request.
func (m *Metrics) CountTokens(model string, prompt, cached, completion int) {
	m.tokens.WithLabelValues(model, "prompt").Add(float64(prompt))
	m.tokens.WithLabelValues(model, "cached").Add(float64(cached))
	m.tokens.WithLabelValues(model, "completion").Add(float64(completion))
}

// CountAnswer counts a complete answer.
func (m *Metrics) CountAnswer(model string, first time.Duration) {
	m.first.WithLabelValues(model).Observe(first.Seconds())
}

// SetAdapters sets the number of adapters that requests have loaded.
func (m *Metrics) SetAdapters(loaded int) { m.adapters.Set(float64(loaded)) }

// clientLeft is the status of a request whose client disconnected, as in nginx.
const clientLeft = 499

func (m *Metrics) request(r *http.Request, status int, took time.Duration) {
	if status == 0 {
		status = clientLeft
	}
	path := pathLabel(r)
	m.requests.WithLabelValues(path, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(path).Observe(took.Seconds())
}

// pathLabel is the path of a request as a label, of which there are only a few: clients must not be able to create new ones.
func pathLabel(r *http.Request) string {
	path := r.URL.Path
	switch path {
	case "/", healthz, readyz, metrics, "/v1/chat/completions", "/v1/completions", "/v1/models",
		"/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/v1/sessions":
		return path
	}
	for _, prefix := range []string{"/v1/models/", "/v1/sessions/", "/v1/", "/api/v1/"} {
		if strings.HasPrefix(path, prefix) {
			return prefix + "*"
		}
	}
	return "other"
}
