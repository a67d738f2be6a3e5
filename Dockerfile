# The service without a database: DATABASE_URL says where that is, and docker-compose.yml brings one along.
FROM node:26-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# The install scripts fetch another Node and prepare the embedded PostgreSQL, and neither is of use here.
RUN npm ci --ignore-scripts
COPY tsconfig.json prisma.config.ts ./
COPY prisma prisma
COPY src src
# Generating the client needs no engine, but Prisma would download one.
RUN PRISMA_SCHEMA_ENGINE_BINARY=/bin/true CHECKPOINT_DISABLE=1 npx prisma generate && npx tsc -p tsconfig.json && npx vite build --config src/dashboard/vite.config.ts

FROM node:26-slim
ENV NODE_ENV=production HTTP_HOST=0.0.0.0
# As scripts/start/launch.mjs has it for whoever runs npm start: memory is given back.
ENV MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=65536
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --omit=optional --ignore-scripts && npm cache clean --force
COPY prisma/migrations prisma/migrations
COPY --from=build /app/dist dist
# The journal of deliveries, which must outlive a killed process but not the container.
RUN mkdir data && chown node:node data
USER node
EXPOSE 3000 2525 2587 2465
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.HTTP_PORT || 3000}/healthz`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "--max-semi-space-size=32", "--heap-growing-percent=100", "dist/main.js"]
