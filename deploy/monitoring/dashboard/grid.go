package main

// width is that of Grafana's grid.
const width = 24

// grid arranges panels in rows.
type grid struct {
	panels         []object
	x, y, tall, id int
}

// row begins a new one with a title.
func (g *grid) row(title string) {
	g.wrap()
	g.id++
	g.panels = append(g.panels, object{"id": g.id, "type": "row", "title": title, "collapsed": false, "panels": []object{}, "gridPos": object{"x": 0, "y": g.y, "w": width, "h": 1}})
	g.y++
}

// wrap begins a new row below the existing ones.
func (g *grid) wrap() {
	g.x, g.y, g.tall = 0, g.y+g.tall, 0
}

// add appends a panel to the row, or to a new row if it does not fit.
func (g *grid) add(p panel, w, h int) {
	if g.x+w > width {
		g.wrap()
	}
	g.id++
	target := object{"refId": "A", "datasource": source, "expr": p.query, "legendFormat": p.legend}
	if p.kind != "timeseries" {
		target["instant"] = true
	}
	defaults := object{"unit": p.unit}
	if p.kind == "table" {
		target["format"] = "table"
	}
	if p.kind == "stat" {
		defaults["thresholds"] = thresholds(p.red)
	}
	g.panels = append(g.panels, object{
		"id": g.id, "type": p.kind, "title": p.title, "description": p.about, "datasource": source,
		"gridPos": object{"x": g.x, "y": g.y, "w": w, "h": h}, "targets": []object{target},
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}},
	})
	g.x, g.tall = g.x+w, max(g.tall, h)
}

func thresholds(red bool) object {
	steps := []object{{"color": "green", "value": nil}}
	if red {
		steps = append(steps, object{"color": "red", "value": 1})
	}
	return object{"mode": "absolute", "steps": steps}
}
