package kernels

import "fmt"

// LossKind is the closed set of objectives. r = exp(logp − old) is the importance ratio, A the
// advantage, w the weight of a row.
type LossKind uint8

const (
	ImportanceSampling LossKind = iota // −Σ w·r·A
	PPO                                // −Σ w·min(r·A, clamp(r, Low, High)·A)
	CISPO                              // −Σ w·clamp(r, Low, High)·A·logp, the clamped ratio held constant
	CrossEntropy                       // −Σ w·A·logp
)

var lossNames = [...]string{"importance_sampling", "ppo", "cispo", "cross_entropy"}

func (k LossKind) String() string { return lossNames[k] }

// ParseLoss finds the loss of that name with its usual clip range.
func ParseLoss(name string) (Loss, error) {
	for k, n := range lossNames {
		if n == name {
			l := Loss{Kind: LossKind(k)}
			switch l.Kind {
			case PPO:
				l.Low, l.High = 0.8, 1.2
			case CISPO:
				l.Low, l.High = 0, 4
			}
			return l, nil
		}
	}
	return Loss{}, fmt.Errorf("loss %q is not known; expected one of %q", name, lossNames)
}

// Loss is an objective with its clip range, where it has one: Low and High bound r itself, as 0.8 and 1.2 do. ParseLoss gives the usual
// range; the zero value of one is none, and is refused.
type Loss struct {
	Kind      LossKind
	Low, High float32
}

// LossIn are the inputs of Loss. A row with weight zero is masked: it adds nothing to loss and statistics,
// and its gradient is exactly zero.
type LossIn struct {
	LogP      Buffer // [T]
	Entropy   Buffer // [T]
	OldLogP   Buffer // [T] what the sampler recorded
	Advantage Buffer // [T]
	Weight    Buffer // [T] implements the reduction: 1 for a sum, 1/n for a mean
}

// The statistics that Loss writes into an F64 buffer, over the unmasked rows.
const (
	StatLoss     = iota
	StatRows     // number of unmasked rows
	StatRatio    // Σ r
	StatRatioSq  // Σ r²
	StatRatioMin // +Inf without rows
	StatRatioMax // −Inf without rows
	StatKL1      // Σ (old − logp)
	StatKL2      // Σ ½ (old − logp)²
	StatMaxDiff  // max |logp − old|
	StatEntropy  // Σ entropy
	StatClipped  // number of rows whose gradient clipping changed
	NumStats
)

// AdamStep is one step of Adam with decoupled weight decay:
//
//	g' = GradScale·g;  m = Beta1·m + (1−Beta1)·g';  v = Beta2·v + (1−Beta2)·g'²
//	p −= LR·WeightDecay·p;  p −= LR·(m/Correction1) / (sqrt(v/Correction2) + Eps)
type AdamStep struct {
	LR, Beta1, Beta2, Eps, WeightDecay float32
	GradScale                          float32 // 1, or what clipping asks for
	Correction1, Correction2           float32 // 1 − Beta^step
}
