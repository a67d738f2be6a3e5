import type Router from '@koa/router';
import type { OpenApiDocument } from './document.ts';
import { referencePage, referencePolicy } from './page.ts';

/**
 * `GET /api/v1/openapi.json`: the reference for programs. `GET /docs`: the same for people.
 *
 * @param documentOf makes the document; called once
 */
export function referenceRoutes(router: Router, documentOf: () => OpenApiDocument): void {
  // Built on first use, so that a start does not wait for it.
  let made: ReturnType<typeof make> | undefined;
  const make = () => {
    const document = documentOf();
    return { json: JSON.stringify(document), page: referencePage(document) };
  };
  const reference = () => {
    made ??= make();
    return made;
  };

  router.get('/api/v1/openapi.json', (ctx) => {
    ctx.type = 'json';
    ctx.body = reference().json;
  });

  router.get('/docs', (ctx) => {
    ctx.type = 'html';
    ctx.set('Content-Security-Policy', referencePolicy);
    ctx.body = reference().page;
  });
}
