# The service in a container: docker build -t aleator . && docker run -p 127.0.0.1:8000:8000 -v ./model:/model:ro aleator
# This file was not built where Aleator is tested.
FROM python:3.12-slim

# PyTorch without CUDA, which the service does not use
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu torch

COPY . /src
RUN pip install --no-cache-dir '/src[serve]' && rm -r /src

# One thread for each worker: there are as many workers as cores
ENV OMP_NUM_THREADS=1
RUN useradd --no-create-home --uid 1000 aleator
USER aleator
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/ready', timeout=3)"]
ENTRYPOINT ["aleator", "serve", "/model", "--host", "0.0.0.0"]
CMD ["--workers", "2"]
