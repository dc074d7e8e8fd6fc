package importer

import (
	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// samples are artificial pools for which profiles are rendered: rows of the matrix of lint, whose
// first dimensions are the provider and the kubelet.
type samples struct {
	dims []matrix.Dimension
	rows [][]int
}

// newSamples returns pools with defaults and with one other value at a time, for each provider and
// kubelet in rotation, then those of lint, in which any two values meet. For a profile without
// providers there are none.
func newSamples(doc profile.Document) *samples {
	s := &samples{dims: matrix.Dimensions(doc)}
	providers, kubelets := len(s.dims[0].Values), len(s.dims[1].Values)
	if providers == 0 {
		return s
	}
	for n := range max(providers, kubelets) {
		s.addRow(n%providers, n%kubelets, 0, 0)
	}
	n := 0
	for d := 2; d < len(s.dims); d++ {
		for v := 1; v < len(s.dims[d].Values); v++ {
			s.addRow(n%providers, n%kubelets, d, v)
			n++
		}
	}
	s.rows = append(s.rows, matrix.PairwiseRows(s.dims)...)
	return s
}

// addEveryProviderAndKubelet adds pools for a comparison that has to be reliable: every value with
// every provider and every kubelet.
func (s *samples) addEveryProviderAndKubelet() {
	for provider := range s.dims[0].Values {
		for kubelet := range s.dims[1].Values {
			for d := 2; d < len(s.dims); d++ {
				for v := 1; v < len(s.dims[d].Values); v++ {
					s.addRow(provider, kubelet, d, v)
				}
			}
		}
	}
}

func (s *samples) addRow(provider, kubelet, dimension, value int) {
	row := make([]int, len(s.dims))
	row[dimension] = value
	row[0], row[1] = provider, kubelet
	s.rows = append(s.rows, row)
}

// render renders a profile for a row. It need not be the one of the samples.
func (s *samples) render(engine *render.Engine, doc profile.Document, row []int) (*render.Output, error) {
	in, err := matrix.Combine(doc, s.dims, row).Input()
	if err != nil {
		return nil, err
	}
	return engine.Render(in)
}
