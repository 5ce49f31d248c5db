package ecs

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxDelete is ECS API, DeleteTaskDefinitions: taskDefinitions.
const maxDelete = 10

// Statuses of definitions (ECS API, TaskDefinition: status).
const (
	active           = "ACTIVE"
	inactive         = "INACTIVE"
	deleteInProgress = "DELETE_IN_PROGRESS"
)

func (d *definition) status() string {
	switch {
	case d.deleting:
		return deleteInProgress
	case d.inactive:
		return inactive
	default:
		return active
	}
}

func (s *Server) describeTaskDefinition(c *request) (any, *apiError) {
	var in struct {
		TaskDefinition *string  `json:"taskDefinition"`
		Include        []string `json:"include"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	// It has no resource-level permissions (Service Authorization Reference).
	if e := s.authorize("ecs:DescribeTaskDefinition", "*"); e != nil {
		return nil, e
	}
	d := s.findDefinition(value(in.TaskDefinition))
	if d == nil {
		return nil, clientError("Unable to describe task definition.")
	}
	out := map[string]any{"taskDefinition": d.view()}
	if slices.Contains(in.Include, "TAGS") {
		out["tags"] = nonNil(d.Tags)
	}
	return out, nil
}

func (s *Server) deregisterTaskDefinition(c *request) (any, *apiError) {
	var in struct {
		TaskDefinition *string `json:"taskDefinition"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	if e := s.authorize("ecs:DeregisterTaskDefinition", "*"); e != nil {
		return nil, e
	}
	d := s.findDefinition(value(in.TaskDefinition))
	if d == nil || d.deleting || !hasRevision(value(in.TaskDefinition)) {
		return nil, clientError("The specified task definition does not exist.")
	}
	if !d.inactive {
		d.inactive, d.deregistered = true, c.now
	}
	return map[string]any{"taskDefinition": d.view()}, nil
}

// hasRevision is ECS API, DeregisterTaskDefinition: "You must specify a revision".
func hasRevision(name string) bool {
	_, rev, ok := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	return ok && rev != ""
}

// deleteTaskDefinitions is ECS API, DeleteTaskDefinitions: at most 10, with a
// revision, INACTIVE; they are gone once no task uses them.
func (s *Server) deleteTaskDefinitions(c *request) (any, *apiError) {
	var in struct {
		TaskDefinitions []string `json:"taskDefinitions"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	if n := len(in.TaskDefinitions); n < 1 || n > maxDelete {
		return nil, invalidParameter("taskDefinitions must have 1 to %d items.", maxDelete)
	}
	deleted, failures := []any{}, []failure{}
	for _, name := range in.TaskDefinitions {
		arn := name
		if !strings.HasPrefix(arn, "arn:") {
			arn = s.arn("task-definition/" + name)
		}
		if e := s.authorize("ecs:DeleteTaskDefinitions", arn); e != nil {
			return nil, e
		}
		if !hasRevision(name) {
			return nil, invalidParameter("Invalid revision number. Number: %s", name)
		}
		switch d := s.findDefinition(name); {
		case d == nil:
			failures = append(failures, failure{
				Arn: arn, Reason: "TASK_DEFINITION_NOT_FOUND", Detail: "The specified task definition was not found.",
			})
		case !d.inactive:
			failures = append(failures, failure{
				Arn: arn, Reason: "TASK_DEFINITION_NOT_INACTIVE",
				Detail: "The specified task definition is still in ACTIVE status. Please deregister the target task definition " +
					"and try again.",
			})
		default:
			d.deleting = true
			deleted = append(deleted, d.view())
		}
	}
	return map[string]any{"taskDefinitions": deleted, "failures": failures}, nil
}

// findDefinition finds family (its latest ACTIVE revision), family:revision or
// an ARN (ECS API, DescribeTaskDefinition: taskDefinition).
func (s *Server) findDefinition(name string) *definition {
	name = strings.TrimPrefix(name, s.arn("task-definition/"))
	family, rev, ok := strings.Cut(name, ":")
	revs := s.families[family]
	if ok {
		if n, err := strconv.Atoi(rev); err == nil && n >= 1 && n <= len(revs) && !s.gone(revs[n-1]) {
			return revs[n-1]
		}
		return nil
	}
	for i := len(revs) - 1; i >= 0; i-- {
		if !revs[i].inactive {
			return revs[i]
		}
	}
	return nil
}

// gone is true for a deleted revision that no task uses any more. Its number is
// not given again.
func (s *Server) gone(d *definition) bool {
	if !d.deleting {
		return false
	}
	for _, t := range s.tasks {
		if t.def == d && t.life.stopped > s.age(t) {
			return false
		}
	}
	return true
}

type listDefinitionsInput struct {
	FamilyPrefix *string `json:"familyPrefix"`
	MaxResults   *int32  `json:"maxResults"`
	NextToken    *string `json:"nextToken"`
	Sort         *string `json:"sort"`
	Status       *string `json:"status"`
}

// listTaskDefinitions is ECS API, ListTaskDefinitions: by family name and
// ascending revision; familyPrefix is a full family name; ACTIVE ones by default.
func (s *Server) listTaskDefinitions(c *request) (any, *apiError) {
	var in listDefinitionsInput
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	if e := s.authorize("ecs:ListTaskDefinitions", "*"); e != nil {
		return nil, e
	}
	status := or(in.Status, active)
	if !slices.Contains([]string{active, inactive, deleteInProgress}, status) {
		return nil, invalidParameter("Invalid status %q.", status)
	}
	var arns []string
	for _, family := range slices.Sorted(maps.Keys(s.families)) {
		if in.FamilyPrefix != nil && *in.FamilyPrefix != family {
			continue
		}
		for _, d := range s.families[family] {
			if d.status() == status && !s.gone(d) {
				arns = append(arns, d.arn)
			}
		}
	}
	switch value(in.Sort) {
	case "", "ASC":
	case "DESC":
		slices.Reverse(arns)
	default:
		return nil, invalidParameter("Invalid sort %q.", *in.Sort)
	}
	return s.listing("taskDefinitionArns", arns, in.NextToken, in.MaxResults)
}

// listFamilies is ECS API, ListTaskDefinitionFamilies: those with an ACTIVE
// revision, those with only INACTIVE ones, or all.
func (s *Server) listFamilies(c *request) (any, *apiError) {
	var in listDefinitionsInput
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	if e := s.authorize("ecs:ListTaskDefinitionFamilies", "*"); e != nil {
		return nil, e
	}
	want := or(in.Status, "ALL")
	if !slices.Contains([]string{active, inactive, "ALL"}, want) || in.Sort != nil {
		return nil, invalidParameter("Invalid status %q.", want)
	}
	var names []string
	for _, family := range slices.Sorted(maps.Keys(s.families)) {
		if !strings.HasPrefix(family, value(in.FamilyPrefix)) {
			continue
		}
		if st := s.familyStatus(family); st != "" && (want == "ALL" || want == st) {
			names = append(names, family)
		}
	}
	return s.listing("families", names, in.NextToken, in.MaxResults)
}

// familyStatus is ACTIVE, INACTIVE, or "" for a family without a revision.
func (s *Server) familyStatus(family string) string {
	out := ""
	for _, d := range s.families[family] {
		switch d.status() {
		case active:
			return active
		case inactive:
			out = inactive
		}
	}
	return out
}

// listing is a page of a listing of ECS.
func (s *Server) listing(member string, items []string, token *string, maxResult *int32) (any, *apiError) {
	limit, e := pageSize(maxResult, maxResults, maxResults)
	if e != nil {
		return nil, e
	}
	out, next, ok := page(items, token, limit)
	if !ok {
		return nil, invalidParameter("Invalid token")
	}
	answer := map[string]any{member: out}
	if next != "" {
		answer["nextToken"] = next
	}
	return answer, nil
}

// behaviour is what container i does with a command.
func (d *definition) behaviour(i int, argv []string) *behaviour {
	key := strconv.Itoa(i) + "\x00" + strings.Join(argv, "\x00")
	if b := d.behaviours[key]; b != nil {
		return b
	}
	if d.behaviours == nil {
		d.behaviours = map[string]*behaviour{}
	}
	b := interpret(argv)
	d.behaviours[key] = &b
	return &b
}

// health are the health statuses of container i when it does b.
func (d *definition) health(i int, b *behaviour) []healthChange {
	h := d.ContainerDefinitions[i].HealthCheck
	return h.changes(h.phasesOf(b.phases))
}

// index is the number of a container, -1 for none.
func (d *definition) index(name string) int {
	return slices.IndexFunc(d.ContainerDefinitions, func(c containerDefinition) bool { return *c.Name == name })
}

// view is the definition as the API shows it.
func (d *definition) view() any {
	in := d.registerInput
	in.Tags = nil
	v := struct {
		registerInput
		Arn            string   `json:"taskDefinitionArn"`
		Revision       int      `json:"revision"`
		Status         string   `json:"status"`
		Compat         []string `json:"compatibilities"`
		RegisteredAt   epoch    `json:"registeredAt"`
		DeregisteredAt *epoch   `json:"deregisteredAt,omitempty"`
	}{
		registerInput: in, Arn: d.arn, Revision: d.revision, Status: d.status(), Compat: []string{"EC2", "FARGATE"},
		RegisteredAt: epoch(d.registered),
	}
	if d.inactive {
		at := epoch(d.deregistered)
		v.DeregisteredAt = &at
	}
	return v
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func revisionOf(d *definition) string { return strconv.Itoa(d.revision) }
