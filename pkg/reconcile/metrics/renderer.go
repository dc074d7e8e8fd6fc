package metrics

import (
	"k8s.io/utils/clock"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Renderer renders, and measures the duration.
type Renderer struct {
	Engine  *render.Engine
	Clock   clock.PassiveClock
	Metrics *Metrics
}

// Render calls the engine.
func (r Renderer) Render(in render.Input) (*render.Output, error) {
	began := r.Clock.Now()
	defer func() { r.Metrics.ObserveRender(r.Clock.Since(began)) }()
	return r.Engine.Render(in)
}
