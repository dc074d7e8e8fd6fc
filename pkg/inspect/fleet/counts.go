package fleet

import api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"

// Counts are numbers of existing nodes.
type Counts struct {
	Total    int `json:"total"`    // existing nodes
	Current  int `json:"current"`  // with the version of new machines
	Behind   int `json:"behind"`   // with another version
	Unknown  int `json:"unknown"`  // one of both is unknown
	Disputed int `json:"disputed"` // whose report contradicts the records
	Deleted  int `json:"deleted"`  // deleted, still known
}

// Add adds the numbers of others.
func (c *Counts) Add(o Counts) {
	c.Total += o.Total
	c.Current += o.Current
	c.Behind += o.Behind
	c.Unknown += o.Unknown
	c.Disputed += o.Disputed
	c.Deleted += o.Deleted
}

// Counts counts the nodes of a pool.
func (p *Pool) Counts() Counts {
	c := Counts{Total: len(p.Nodes), Deleted: p.Removed}
	for _, n := range p.Nodes {
		switch n.Behind {
		case api.BehindNo:
			c.Current++
		case api.BehindYes:
			c.Behind++
		default:
			c.Unknown++
		}
		if n.Disputed {
			c.Disputed++
		}
	}
	return c
}
