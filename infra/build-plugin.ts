// Lets a plain `serverless package` or `serverless deploy` build the zips it is about to describe or upload.
import type { BuiltFunction } from './build.ts';

type Hook = () => Promise<BuiltFunction[]>;

/** Loaded when it is needed: osls requires its plugins, and a module that may await at its top cannot be required. */
async function build(): Promise<BuiltFunction[]> {
  const module = await import('./build.ts');
  return module.build();
}

/** osls constructs its plugins with `new`; a function that returns its object will do. */
export default function BuildPlugin(): { hooks: Record<string, Hook> } {
  return {
    hooks: {
      'before:package:createDeploymentArtifacts': build,
      'before:deploy:function:packageFunction': build,
    },
  };
}
