package ecs

import "slices"

// check is ECS developer guide, "Using the awslogs log driver": the options that
// Fargate requires, and the execution role that awslogs needs. Of the drivers that
// Fargate has (ECS API, LogConfiguration: logDriver) this server has awslogs.
func (l *logConfiguration) check(hasRole bool) *apiError {
	if l == nil {
		return nil
	}
	if d := value(l.LogDriver); !slices.Contains([]string{"awslogs", "splunk", "awsfirelens"}, d) {
		return clientError("Log driver %q is not supported for Fargate.", d)
	}
	if *l.LogDriver != "awslogs" {
		return clientError("This server has no log driver %q.", *l.LogDriver)
	}
	for _, o := range []string{"awslogs-group", "awslogs-region", "awslogs-stream-prefix"} {
		if l.Options[o] == "" {
			return clientError("Log driver awslogs requires options: %s.", o)
		}
	}
	for o, v := range l.Options {
		if e := checkLogOption(o, v); e != nil {
			return e
		}
	}
	if !hasRole {
		return clientError("Fargate requires task definition to have execution role ARN to support log driver awslogs.")
	}
	return nil
}

// checkLogOption is ECS API, LogConfiguration: options: what awslogs knows.
func checkLogOption(name, v string) *apiError {
	switch name {
	case "awslogs-group", "awslogs-region", "awslogs-stream-prefix", "awslogs-datetime-format",
		"awslogs-multiline-pattern", "max-buffer-size":
	case "awslogs-create-group":
		if v != "true" && v != "false" {
			return clientError("Invalid value of log option awslogs-create-group: %q.", v)
		}
	case "mode":
		if v != "blocking" && v != "non-blocking" {
			return clientError("Invalid value of log option mode: %q.", v)
		}
	default:
		return clientError("Log driver awslogs disallows options: %s.", name)
	}
	return nil
}

// check is ECS API, FirelensConfiguration. A definition that is valid otherwise
// cannot use it here, since awsfirelens is not there.
func (f *firelens) check() *apiError {
	if f == nil {
		return nil
	}
	return clientError("This server has no firelensConfiguration.")
}
