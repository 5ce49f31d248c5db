package ecs

import (
	"regexp"
	"strings"
)

// maxEnvironmentFiles is ECS developer guide, "Pass environment variables".
const maxEnvironmentFiles = 10

// checkEnvironment is ECS API, ContainerDefinition: environment, environmentFiles,
// secrets, and RepositoryCredentials.
func (c *containerDefinition) checkEnvironment(hasRole bool) *apiError {
	seen := map[string]bool{}
	for _, kv := range c.Environment {
		if value(kv.Name) == "" {
			return clientError("Environment variable without a name.")
		}
		seen[*kv.Name] = true
	}
	if e := checkEnvironmentFiles(c.EnvironmentFiles); e != nil {
		return e
	}
	for _, s := range c.Secrets {
		// ECS API, Secret: name and valueFrom are required. That a name may not be in
		// both is what registration answers.
		if value(s.Name) == "" || value(s.ValueFrom) == "" {
			return clientError("Secret without a name or without valueFrom.")
		}
		if seen[*s.Name] {
			return clientError(
				"The secret name must be unique and not shared with any new or existing environment variables set on the "+
					"container, such as '%s'.",
				*s.Name,
			)
		}
		seen[*s.Name] = true
		if _, ok := parseSecret(*s.ValueFrom); !ok && !parameterPattern.MatchString(*s.ValueFrom) {
			return clientError("Invalid valueFrom %q.", *s.ValueFrom)
		}
	}
	if len(c.Secrets) > 0 && !hasRole {
		return clientError("When you are specifying container secrets, you must also specify a value for 'executionRoleArn'.")
	}
	if c.RepositoryCredentials == nil {
		return nil
	}
	if _, ok := parseSecret(value(c.RepositoryCredentials.CredentialsParameter)); !ok {
		return clientError("Invalid credentialsParameter %q.", value(c.RepositoryCredentials.CredentialsParameter))
	}
	if !hasRole {
		return clientError("Fargate requires task definition to have execution role ARN to support repository credentials.")
	}
	return nil
}

func checkEnvironmentFiles(files []environmentFile) *apiError {
	if len(files) > maxEnvironmentFiles {
		return clientError("Too many environment files: at most %d.", maxEnvironmentFiles)
	}
	for _, f := range files {
		if value(f.Type) != "s3" || !strings.HasPrefix(value(f.Value), "arn:aws:s3:::") ||
			!strings.HasSuffix(value(f.Value), ".env") {
			return clientError("Invalid environment file %q.", value(f.Value))
		}
	}
	return nil
}

// parameterPattern is a parameter of SSM by name or ARN; this server has none of
// them, so a task that uses one does not start.
var parameterPattern = regexp.MustCompile(`^(arn:aws:ssm:[a-z0-9-]+:[0-9]{12}:parameter/.+|[A-Za-z0-9_./-]+)$`)

// secretAt is a part of a secret, as valueFrom names it.
type secretAt struct{ arn, key, stage, version string }

// parseSecret reads "arn:aws:secretsmanager:region:account:secret:name-suffix",
// optionally followed by ":json-key:version-stage:version-id" (ECS developer
// guide, "Pass Secrets Manager secrets through environment variables"). A bare
// name is not one: that would be a parameter.
func parseSecret(from string) (secretAt, bool) {
	p := strings.Split(from, ":")
	if len(p) != 7 && len(p) != 10 || p[0] != "arn" || p[2] != "secretsmanager" || p[5] != "secret" || p[6] == "" {
		return secretAt{}, false
	}
	s := secretAt{arn: strings.Join(p[:7], ":")}
	if len(p) == 10 {
		s.key, s.stage, s.version = p[7], p[8], p[9]
	}
	return s, true
}
