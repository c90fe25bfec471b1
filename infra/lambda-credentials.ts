// In a zip this takes the place of the SDK's whole credential chain (`@aws-sdk/credential-provider-node`): Lambda puts
// a function's credentials into its environment, and nowhere else. Profiles, SSO and instance metadata stay outside.

export { fromEnv as defaultProvider } from '@aws-sdk/credential-provider-env';
