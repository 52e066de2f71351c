package refusal

import (
	"net/http"
	"strings"
)

// Methods are those for which a mux has a route to the path of a request. A pattern without a method does not count: it is a
// fallback, and rest names the one for everything else.
func Methods(mux *http.ServeMux, r *http.Request, rest string) (all []string) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		asked := *r
		asked.Method = method
		if _, pattern := mux.Handler(&asked); strings.Contains(pattern, " ") && pattern != rest {
			all = append(all, method)
		}
	}
	return all
}

// MethodError is the refusal of a method if the path has others, which it puts into the Allow header; else nil.
func MethodError(w http.ResponseWriter, r *http.Request, methods []string) error {
	if len(methods) == 0 {
		return nil
	}
	there := strings.Join(methods, ", ")
	w.Header().Set("Allow", there)
	return Errorf(http.StatusMethodNotAllowed, "the method %s is not allowed for %.200s; send "+
		"%s", r.Method, r.URL.Path, strings.Join(methods, " or "))
}
